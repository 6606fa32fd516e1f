"""Saved files, damaged and forged: refused with a FileError, or something that acts; never a crash, never nonsense.

SPARING_FUZZ multiplies the number of cases: SPARING_FUZZ=50 pytest tests/fuzz runs for some minutes.
"""

import json
import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

import sparing
from fuzz import acting, mutating
from fuzz.victims import LEARNERS, POLICIES, SEED, learner
from sparing.errors import FileError
from sparing.policies.files import save_policy

CASES = float(os.environ.get("SPARING_FUZZ", "1"))


@pytest.fixture(scope="module")
def files(tmp_path_factory):
    folder = tmp_path_factory.mktemp("saved")
    for name in LEARNERS:
        learner(name).save(folder / f"{name}.learner")
    for name, make in POLICIES.items():
        save_policy(make(), folder / f"{name}.policy")
    return {path.name: path for path in sorted(folder.iterdir())}


def count(number):
    return max(1, round(CASES * number))


def same(one, other, kind):
    """Whether two things act alike: a byte that the format does not look at may change."""
    if kind == "sparing learner":
        one, other = one.policy(), other.policy()
    contexts = np.random.default_rng(SEED).random((5, acting.n_features(one)))
    return np.array_equal(one.probabilities(contexts), other.probabilities(contexts))


@pytest.mark.parametrize(
    "name", [f"{name}.learner" for name in LEARNERS[2:5]] + ["greedy.policy", "pi-plus.policy"]
)
def test_an_accident_is_refused_or_without_effect(name, files, tmp_path):
    whole, kind = files[name].read_bytes(), mutating.kind_and_version(files[name])[0]
    intact = acting.load(files[name], kind)
    refused = 0
    for case in range(count(80)):
        content, change = mutating.damaged(whole, np.random.default_rng([SEED, case]))
        (tmp_path / "damaged").write_bytes(content)
        try:
            found = acting.load(tmp_path / "damaged", kind)
        except FileError:
            refused += 1
        else:
            assert same(intact, found, kind), f"{name}, {change}: another one came of it"
    assert refused > count(80) / 2


def test_a_forged_learner_is_refused_or_decides(files):
    check([path for name, path in files.items() if name.endswith(".learner")], count(25))


def test_a_forged_policy_is_refused_or_acts(files):
    check([path for name, path in files.items() if name.endswith(".policy")], count(60))


def check(paths, cases):
    """Play so many forgeries of each file; all that went wrong is told, with what was changed."""
    found = outcomes(paths, cases)
    assert len(found) == cases * len(paths)
    bad = [(case, *told) for case, told in found.items() if told[1] not in ("refused", "acted")]
    lines = "\n".join(f"  {case}: {change} → {outcome[:200]}" for case, change, outcome in bad)
    assert not bad, f"{len(bad)} of {len(found)} forged files went wrong\n{lines}"


def outcomes(paths, cases):
    """Case → (what was changed, outcome), played in a process that is started again where it crashes."""
    folders = [Path(__file__).parents[1], Path(sparing.__file__).parents[1]]
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(map(str, folders))}
    found, first = {}, 0
    while True:
        words = [sys.executable, "-m", "fuzz.acting", SEED, cases, first, *paths]
        done = subprocess.run(
            list(map(str, words)), capture_output=True, text=True, env=environment, check=False
        )
        lines = [json.loads(line) for line in done.stdout.splitlines()]
        changes = {line["case"]: line["change"] for line in lines if "change" in line}
        ends = {line["case"]: line["outcome"] for line in lines if "outcome" in line}
        crash = f"the process ended with {done.returncode}"
        found |= {case: (change, ends.get(case, crash)) for case, change in changes.items()}
        if done.returncode == 0:
            return found
        assert changes, done.stderr
        first = max(changes) + 1
