"""Start-up: what is imported, how long it takes, and where compiled kernels are kept."""

import json
import os
import resource
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

import sparing

SOURCE = Path(sparing.__file__).parent
HEAVY = {"matplotlib", "numba", "numpy", "pandas", "polars", "pyarrow", "scipy", "sklearn"}
TRIES = 3

LOADED = "import sys; print(*sorted(set(sys.modules)))"
DECIDE = """
import sparing
empty = sparing.Log.empty(action_names=["a", "b", "c"], n_features=4)
learner = sparing.linucb(empty, noise=1.0, theta_bound=1.0, context_bound=2.0)
decision = learner.decide([1.0, 0.0, 1.0, 0.5])
learner.update(decision, 1.0)
"""
COUNT = """
import json, sys
found = {"hits": 0, "misses": 0, "kernels": 0, "kept_in": []}
for name, module in list(sys.modules.items()):
    if name.startswith("sparing"):
        for kernel in vars(module).values():
            if hasattr(kernel, "stats") and hasattr(kernel, "signatures") and kernel.signatures:
                found["kernels"] += 1
                found["hits"] += sum(kernel.stats.cache_hits.values())
                found["misses"] += sum(kernel.stats.cache_misses.values())
                found["kept_in"].append(kernel.stats.cache_path)
found["action"] = decision.action
print(json.dumps(found))
"""


def run(*command, env=None, **options):
    """The output of a child in this environment, with the package that is tested on its path."""
    paths = os.pathsep.join([str(SOURCE.parent), os.environ.get("PYTHONPATH", "")])
    done = subprocess.run(
        [sys.executable, *command],
        env={**os.environ, "PYTHONPATH": paths, **(env or {})},
        capture_output=True,
        text=True,
        check=False,
        **options,
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


def cpu_seconds(*commands):
    """User and system time of each of some children, the least of a few rounds."""
    taken = []
    for _ in range(TRIES):
        for command in commands:
            before = resource.getrusage(resource.RUSAGE_CHILDREN)
            run(*command)
            after = resource.getrusage(resource.RUSAGE_CHILDREN)
            taken.append(after.ru_utime - before.ru_utime + after.ru_stime - before.ru_stime)
    return [min(taken[number :: len(commands)]) for number in range(len(commands))]


def packages(code):
    """Top-level packages loaded by a piece of code, but those that an empty program loads too."""
    plain, loaded = (
        {name.split(".")[0] for name in run("-c", text).split()} for text in (LOADED, f"{code}\n{LOADED}")
    )
    return loaded - plain - sys.stdlib_module_names


def test_importing_the_package_loads_nothing_else():
    assert packages("import sparing") == {"sparing"}
    loaded = run("-c", f"import sparing\n{LOADED}").split()
    assert [name for name in loaded if name.startswith("sparing")] == ["sparing"]


@pytest.mark.parametrize("before", ["enable", "disable"])
def test_loading_a_name_leaves_the_garbage_collector_as_it_was(before):
    wrong = "import contextlib\nwith contextlib.suppress(ImportError): sparing._import('sparing.nothing')"
    code = f"import gc, sparing\ngc.{before}()\nsparing.Log\n{wrong}\nprint(gc.isenabled())"
    assert run("-c", code).strip() == str(before == "enable")


def test_help_loads_no_numbers():
    code = """
import contextlib, io, sys
sys.argv = ["sparing", "--help"]
from sparing.cli import main
with contextlib.redirect_stdout(io.StringIO()), contextlib.suppress(SystemExit):
    main()
"""
    assert not packages(code) & HEAVY
    assert "asyncio" not in run("-c", f"{code}\n{LOADED}").split()  # a seventh of its time


def test_a_log_in_memory_loads_neither_numba_nor_pyarrow():
    loaded = packages("import sparing; sparing.Log.empty(action_names=['a'], n_features=1)")
    assert loaded & HEAVY == {"numpy"}


def test_a_decision_loads_only_what_it_computes_with():
    assert packages(DECIDE) & HEAVY == {"numba", "numpy", "scipy"}
    assert "scipy.stats" not in run("-c", f"{DECIDE}\n{LOADED}").split()


def test_import_and_help_are_quick():
    imported, helped = cpu_seconds(("-c", "import sparing"), ("-m", "sparing", "--help"))
    assert imported <= 0.3
    assert helped <= 0.5


@pytest.fixture(scope="module")
def installed(tmp_path_factory):
    """A copy of the package in which nothing can be kept beside the source, not even by root.

    A file is where the folder of compiled code would be.
    """
    where = tmp_path_factory.mktemp("installed")
    shutil.copytree(SOURCE, where / "sparing", ignore=shutil.ignore_patterns("__pycache__"))
    for folder in [where / "sparing", *(p for p in (where / "sparing").rglob("*") if p.is_dir())]:
        (folder / "__pycache__").write_text("in the way")
    return where


def decide_installed(installed, cache, before=""):
    env = {"PYTHONPATH": str(installed), "XDG_CACHE_HOME": str(cache), "NUMBA_CACHE_DIR": ""}
    found = json.loads(run("-c", before + DECIDE + COUNT, env=env))
    assert found["kernels"] > 0
    return found


@pytest.fixture(scope="module")
def user_cache(installed, tmp_path_factory):
    """Where a first process has left its kernels, and what it counted."""
    cache = tmp_path_factory.mktemp("cache")
    return cache, decide_installed(installed, cache)


@pytest.mark.thorough
def test_kernels_of_a_read_only_install_are_kept_in_the_users_cache(installed, user_cache):
    cache, first = user_cache
    assert first["hits"] == 0
    assert first["misses"] >= first["kernels"]
    assert all(Path(path).is_relative_to(cache) for path in first["kept_in"])
    second = decide_installed(installed, cache)
    assert second["misses"] == 0
    assert second["hits"] >= second["kernels"]
    assert second["action"] == first["action"]
    assert all(path.read_text() == "in the way" for path in installed.rglob("__pycache__"))


def test_the_first_decision_with_kept_kernels_is_quick():
    """A second and a half where importing Numba and SciPy takes less than half of it; more where it is slower."""
    run("-c", DECIDE)  # compiles, if nobody has
    decided, imported = cpu_seconds(("-c", DECIDE), ("-c", "import numba, scipy.special"))
    assert decided <= 1.5 * max(1.0, imported / 0.7)


@pytest.mark.thorough
def test_with_nowhere_to_write_kernels_live_as_long_as_the_process(installed, tmp_path):
    nowhere = tmp_path / "file"
    nowhere.write_text("in the way")
    found = decide_installed(installed, nowhere)
    assert found["hits"] == 0
    assert set(found["kept_in"]) == {None}
    assert nowhere.read_text() == "in the way"


@pytest.mark.thorough
def test_with_a_full_disk_decisions_are_made_all_the_same(installed, tmp_path):
    """No file may grow past 0 bytes: a folder for the kernels can be made, but nothing put into it."""
    limit = "import resource; resource.setrlimit(resource.RLIMIT_FSIZE, (0, 0))"
    found = decide_installed(installed, tmp_path, before=limit)
    assert found["hits"] == 0
    assert all(Path(path).is_relative_to(tmp_path) for path in found["kept_in"])
    assert not any(path.stat().st_size for path in tmp_path.rglob("*") if path.is_file())
