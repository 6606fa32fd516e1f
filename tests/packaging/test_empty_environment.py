"""The wheel in an environment that has nothing else: what a newcomer installs, runs, and sees from outside. `make thorough`."""

import re
import subprocess
import sys
import tarfile
import tomllib
import venv
import zipfile
from pathlib import Path

import pytest

import sparing
from reference.reader import Reader

ROOT = Path(__file__).parents[2]

pytestmark = pytest.mark.thorough


def run(*command, cwd=None, fails=False):
    done = subprocess.run(list(map(str, command)), cwd=cwd, capture_output=True, text=True, check=False)
    assert fails or done.returncode == 0, f"{command}\n{done.stdout}\n{done.stderr}"
    return done.stdout + done.stderr


@pytest.fixture(scope="module")
def constraints(tmp_path_factory):
    """The locked versions: what is tried here is our package, not the day's newest of others."""
    lines = (ROOT / "requirements.lock").read_text(encoding="utf-8").splitlines()
    pinned = [line.split(" \\")[0] for line in lines if re.match(r"[a-z0-9]", line)]
    path = tmp_path_factory.mktemp("lock") / "constraints.txt"
    path.write_text("\n".join(pinned), encoding="utf-8")
    return path


@pytest.fixture(scope="module")
def dist(tmp_path_factory):
    """What `make dist` builds: the source archive, and the wheel that is made from it."""
    folder = tmp_path_factory.mktemp("dist")
    run(sys.executable, "-m", "build", "--no-isolation", "--outdir", folder, ROOT)
    return folder


@pytest.fixture(scope="module")
def wheel(dist):
    (found,) = dist.glob("sparing-*.whl")
    return found


@pytest.fixture(scope="module")
def programs(tmp_path_factory, wheel, constraints):
    """The `bin` of an environment with the plain package."""
    folder = tmp_path_factory.mktemp("plain") / "env"
    venv.create(folder, with_pip=True)
    run(folder / "bin/python", "-m", "pip", "install", "--quiet", "-c", constraints, wheel)
    return folder / "bin"


def test_the_wheel_holds_the_package_and_nothing_else(wheel):
    with zipfile.ZipFile(wheel) as file:
        names = file.namelist()
        metadata = file.read(next(name for name in names if name.endswith("METADATA"))).decode()
    tops = {name.split("/")[0] for name in names}
    assert tops == {"sparing", *(top for top in tops if top.endswith(".dist-info"))}
    assert {"sparing/py.typed", "sparing/__init__.pyi"} <= set(names)
    assert any(name.endswith("licenses/LICENSE") for name in names)
    extras = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"][
        "optional-dependencies"
    ]
    assert set(re.findall(r"Provides-Extra: (\S+)", metadata)) == set(extras)
    assert wheel.stat().st_size < 2_000_000


def test_metadata_and_the_source_archive(dist):
    run(sys.executable, "-m", "twine", "check", "--strict", *dist.iterdir())
    (archive,) = dist.glob("sparing-*.tar.gz")
    with tarfile.open(archive) as file:
        names = {name.split("/", 1)[1] for name in file.getnames()}
    assert {"pyproject.toml", "LICENSE", "README.md", "src/sparing/__init__.pyi"} <= names
    assert not [name for name in names if name.startswith(("tests", "research", "docs", "clients"))]
    assert archive.name == f"sparing-{sparing.__version__}.tar.gz"


def test_plain_install_has_the_audits_page_and_names_what_a_plan_needs(programs, tmp_path):
    (tmp_path / "clicks.csv").write_text(
        "country,banner,clicked\n" + "NZ,red,1\nCH,blue,0\nNZ,blue,0\n" * 40, encoding="utf-8"
    )
    roles = ("clicks.csv", "--action", "banner", "--reward", "clicked", "--actions", "red,blue,gold")
    assert "gold" in run(programs / "sparing", "audit", *roles, "--html", "audit.html", cwd=tmp_path)
    assert "gold" in (tmp_path / "audit.html").read_text(encoding="utf-8")
    options = ("--call-cost", "0.05", "--horizon", "50", "--worlds", "20", "--out", "plan")
    planned = run(programs / "sparing", "plan", *roles, *options, cwd=tmp_path)
    assert "sparing[report]" in planned
    assert "Traceback" not in planned


def test_types_from_outside(programs, tmp_path, constraints):
    """Both checkers find the types of what a user touches first, and no error; mypy in its strictest mode."""
    (tmp_path / "use.py").write_text(
        "import sparing\n\n"
        'log = sparing.read_log("clicks.csv", action="banner", reward="clicked")\n'
        "learner = sparing.economical(log, call_cost=0.1, horizon=10)\n"
        'decision = learner.decide({"country": "NZ"})\n'
        "if decision.needs_reward:\n    learner.update(decision, reward=1.0)\n"
        "reveal_type(log)\nreveal_type(learner)\nreveal_type(decision.needs_reward)\n"
        "reveal_type(sparing.audit(log).headline)\n",
        encoding="utf-8",
    )
    checkers = tmp_path / "checkers"
    venv.create(checkers, with_pip=True)
    run(
        checkers / "bin/python",
        "-m",
        "pip",
        "install",
        "--quiet",
        "-c",
        constraints,
        "mypy",
        "pyright[nodejs]",
    )
    python = programs / "python"
    by_mypy = run(checkers / "bin/mypy", "--strict", "--python-executable", python, "use.py", cwd=tmp_path)
    by_pyright = run(checkers / "bin/pyright", "--pythonpath", python, "use.py", cwd=tmp_path)
    for name in ("Log", "Learner", "bool", "str"):
        assert re.search(rf'Revealed type is "[\w.]*\b{name}"', by_mypy), by_mypy
        assert f'is "{name}"' in by_pyright, by_pyright
    wrong = (tmp_path / "use.py").read_text(encoding="utf-8").replace("reward=1.0", 'reward="one"')
    (tmp_path / "wrong.py").write_text(wrong, encoding="utf-8")
    assert "arg-type" in run(
        checkers / "bin/mypy", "--strict", "--python-executable", python, "wrong.py", cwd=tmp_path, fails=True
    )


def test_the_first_tutorial_from_its_first_line(programs, tmp_path, constraints, monkeypatch):
    """README → install → own table → audit page → learn → plan → serve → curl, with the install command as it stands."""
    monkeypatch.setenv("PIP_CONSTRAINT", str(constraints))
    reader = Reader(tmp_path, programs, installs=True)
    printed = reader.follow("docs/tutorials/clicks.md")
    assert "of 1000 visits were paid for" in printed[-2]
    assert (tmp_path / "audit.html").exists()
    assert all("Traceback" not in said for said in [*printed, *reader.heard])
