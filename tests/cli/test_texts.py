"""A log of raw prompts goes through every command and over HTTP, by the name of its column."""

import csv
import json

import httpx
import numpy as np
import pytest
from typer.testing import CliRunner

import sparing
from service.serving import faults, made, posted, refused, running
from sparing.cli import app
from sparing.service.server import ServerSettings

runner = CliRunner()
ROLES = ["--action", "model", "--reward", "score", "--propensity", "chance", "--actions", "small,large,new"]
CODE = ["write", "a", "python", "function", "that", "sorts", "the", "list", "quickly"]
VERSE = ["compose", "a", "short", "poem", "about", "rain", "on", "the", "river"]


def write_prompts(path, n=300, seed=0):
    """Prompts of two kinds, of which only the large model answers one well."""
    rng = np.random.default_rng(seed)
    with path.open("w", newline="", encoding="utf-8") as file:
        writer = csv.writer(file)
        writer.writerow(["prompt", "model", "score", "chance"])
        for _ in range(n):
            words, model = (CODE, VERSE)[rng.integers(2)], ("small", "large")[rng.integers(2)]
            good = 0.9 if model == "large" or words is VERSE else 0.2
            writer.writerow([" ".join(rng.choice(words, 12)), model, int(rng.random() < good), 0.5])
    return path


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    folder = tmp_path_factory.mktemp("prompts")
    write_prompts(folder / "log.csv")
    return folder


def run(*words):
    done = runner.invoke(app, [str(word) for word in words])
    assert done.exit_code == 0, (done.output, done.exception)
    return done


def test_audit_learn_evaluate_plan(folder):
    done = run("audit", folder / "log.csv", *ROLES, "--json")
    assert "features: prompt: text, 32 directions of its words kept" in done.stderr
    assert json.loads(done.stdout)["metrics"]["features"] == 34
    run("learn", folder / "log.csv", *ROLES, "--out", folder / "p.sparing", "--json")
    policy = sparing.load_policy(folder / "p.sparing")
    verse = {"prompt": "a poem about the river"}
    assert policy.probabilities([verse]).shape == (1, 3)
    done = run("evaluate", folder / "log.csv", *ROLES, "--policy", folder / "p.sparing", "--json")
    assert json.loads(done.stdout)["rows"] < 300
    other = write_prompts(folder / "other.csv", seed=4)
    done = run("evaluate", other, *ROLES, "--policy", folder / "p.sparing", "--methods", "dm", "--json")
    assert json.loads(done.stdout)["rows"] == 300
    (folder / "kinds.json").write_text('{"prompt": {"kind": "text", "keep": 8}}')
    words = ["--horizon", "200", "--call-cost", "0.05", "--worlds", "20", "--workers", "1", "--json"]
    done = run("plan", folder / "log.csv", *ROLES, "--features", folder / "kinds.json", *words)
    assert "8 directions" in done.stderr
    assert json.loads(done.stdout)


def test_serve(folder):
    roles = {
        "action": "model",
        "reward": "score",
        "propensity": "chance",
        "actions": ["small", "large", "new"],
    }
    log = sparing.read_log(folder / "log.csv", **roles)
    settings = made(
        ServerSettings(folder / "store", durability="process"),
        log=log,
        learner="economical",
        said={"call_cost": 0.05, "horizon": 500},
    )
    with running(settings) as url, httpx.Client(base_url=url, timeout=30) as http:
        for prompt in ("write a python function", "🙂 日本語", "", "x" * 2**15, None, 7):
            answer = posted(http, {"context": {"prompt": prompt}}, "/v1/shop/decide")
            assert answer.status_code == 200, answer.text
            found = answer.json()
            if found["needs_reward"]:
                http.post(
                    f"/v1/shop/decisions/{found['decision_id']}/reward", json={"value": 1.0}
                ).raise_for_status()
        large = posted(http, {"context": {"prompt": "x" * 2**20}}, "/v1/shop/decide")
        assert (large.status_code, large.json()["code"]) == (413, "context_too_large")
        half = posted(http, b'{"context": {"prompt": "\\ud800"}}', "/v1/shop/decide")
        assert half.status_code == 400, half.text  # half of a surrogate pair is no text in JSON
        wrong = posted(http, {"context": {"prompt": ["a"]}}, "/v1/shop/decide")
        assert wrong.status_code == 422
        assert "expected a text" in wrong.json()["detail"]
        large = posted(http, {"context": {"prompt": "x" * (17 * 2**20)}}, "/v1/shop/decide")
        assert "16 MiB" in refused(large, 413, "too_large")
    assert faults(settings) == []
