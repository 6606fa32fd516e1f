"""MLflow in an environment of its own, since it excludes versions that are locked: models without pickles, metrics, and the page's example."""

import os
import re
import subprocess
import sys
import venv
from pathlib import Path

import pytest

import sparing

ROOT = Path(__file__).parents[2]
SOURCE = Path(sparing.__file__).parents[1]

CHECK = """
import json, zipfile
from pathlib import Path

import mlflow
import numpy as np
import pandas as pd
import sparing
from sparing.plugins import mlflow as flavor
from sparing.simulation import LinearWorld, draw_log

mlflow.set_tracking_uri((Path.cwd() / "store").as_uri())
table = {
    "country": ["NZ", "CH"] * 200,
    "age": [25.0, None, 40.0, 61.0] * 100,
    "action": ["red", "blue", "blue", "red"] * 100,
    "reward": [1.0, 0.0, 0.5, 0.0] * 100,
    "propensity": [0.5] * 400,
}
log = sparing.read_log(table, features="auto")
frame = pd.DataFrame({name: table[name][:8] for name in ("country", "age")})
policy = sparing.learn(log, "greedy", holdout=0.3)
learner = sparing.economical(log, call_cost=0.1, horizon=500)
random = sparing.learn(log, "poem")

with mlflow.start_run() as run:
    made = {name: flavor.log_model(model, name) for name, model in (("policy", policy), ("learner", learner), ("random", random))}
    evaluation = sparing.evaluate(log, policy)
    plan = sparing.plan(log, call_cost=0.1, horizon=200, worlds=20, learners="economical")
    flavor.log_metrics(evaluation)
    flavor.log_metrics(plan, prefix="plan.", step=3)
stored = mlflow.get_run(run.info.run_id).data.metrics
assert stored["dr.value"] == evaluation["dr"].value, stored
assert stored["dr.low"] == evaluation["dr"].low
assert np.isclose(stored["plan.offline policy.regret"], plan.alone.regret_at().mean)
assert all(np.isfinite(value) for value in stored.values())

# the same decisions, by the general way to load a model and by ours
loaded = {name: mlflow.pyfunc.load_model(info.model_uri) for name, info in made.items()}
assert loaded["policy"].predict(frame)["action"].tolist() == policy.actions(frame).tolist()
assert loaded["policy"].predict(frame)["probability"].tolist() == [1.0] * 8
own = learner.decide_many(frame)
assert loaded["learner"].predict(frame).equals(own.to_frame())
again = flavor.load_model(made["learner"].model_uri)
assert again.digest() == learner.digest()
drawn = loaded["random"].predict(frame, params={"seed": 7})
assert drawn.equals(loaded["random"].predict(frame, params={"seed": 7}))
chances = random.probabilities(random.rows(frame))
names = list(random.action_names)
assert np.allclose(drawn["probability"], [row[names.index(a)] for row, a in zip(chances, drawn["action"])])
many = pd.concat([frame] * 400)
assert not loaded["random"].predict(many).equals(loaded["random"].predict(many))  # new draws

# arrays of numbers
world = draw_log(LinearWorld(n_actions=3, n_features=2, noise=0.5, seed=0), rows=200, seed=1)
plain = sparing.learn(world, "greedy")
flavor.save_model(plain, "plain")
model = mlflow.pyfunc.load_model("plain")
assert model.predict(world.contexts)["action"].tolist() == plain.actions(world.contexts).tolist()
assert model.predict(pd.DataFrame(world.contexts))["action"].tolist() == plain.actions(world.contexts).tolist()

# no pickles: every file is text or an archive of arrays and JSON
for path in [*Path("plain").rglob("*"), *Path("store").rglob("*")]:
    assert path.suffix not in (".pkl", ".pickle", ".joblib"), path
    if path.name == "model.sparing":
        inside = zipfile.ZipFile(path).namelist()
        assert all(name.endswith(".npy") or name in ("header.json", "sha256") for name in inside), inside
try:
    flavor.log_metrics(log)
except sparing.errors.SettingError as error:
    assert "Evaluation or a Plan" in str(error)
else:
    raise AssertionError
Path("plain/data/model.sparing").write_bytes(b"damaged")
try:
    mlflow.pyfunc.load_model("plain")
except sparing.errors.FileError:
    print("whole")
"""


def run(*command, **options):
    done = subprocess.run(list(map(str, command)), capture_output=True, text=True, check=False, **options)
    assert done.returncode == 0, f"{command}\n{done.stdout}\n{done.stderr}"
    return done.stdout


@pytest.fixture(scope="module")
def python(tmp_path_factory):
    """The interpreter of an environment with the extra."""
    folder = tmp_path_factory.mktemp("mlflow") / "env"
    venv.create(folder, with_pip=True)
    found = folder / "bin" / "python"
    run(found, "-m", "pip", "install", "--quiet", f"{ROOT}[mlflow]")
    return found


@pytest.mark.thorough
def test_models_and_metrics(python, tmp_path):
    env = {**os.environ, "PYTHONPATH": str(SOURCE), "MLFLOW_ALLOW_FILE_STORE": "true"}
    assert run(python, "-c", CHECK, cwd=tmp_path, env=env).endswith("whole\n")
    page = (ROOT / "docs" / "plugins" / "mlflow.md").read_text(encoding="utf-8")
    (example,) = re.findall(r"^```py\n(.*?)^```", page, re.MULTILINE | re.DOTALL)
    example = example.replace("http://127.0.0.1:5000", (tmp_path / "page").as_uri())
    assert "probability" in run(python, "-c", example, cwd=tmp_path, env=env)


def test_a_missing_mlflow_is_named():
    code = (
        "import sys; sys.modules['mlflow'] = None\n"
        "import sparing\nfrom sparing.plugins import mlflow\n"
        "try:\n    mlflow.load_model('x')\nexcept sparing.errors.MissingExtraError as error:\n    print(error)\n"
    )
    env = {**os.environ, "PYTHONPATH": str(SOURCE)}
    assert "pip install 'sparing[mlflow]'" in run(sys.executable, "-c", code, env=env)
