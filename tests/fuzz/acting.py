"""A process of its own that reads forged files and acts on what comes of them: it may crash, its parent may not.

python -m fuzz.acting SEED CASES FIRST FILE... forges each file CASES times, from case number FIRST on, and prints
a line of JSON before and after each.
"""

import json
import resource
import signal
import sys
import tempfile
import warnings
from pathlib import Path

import numpy as np

import sparing
from fuzz import mutating
from fuzz.victims import LOG
from sparing import archive
from sparing.errors import FileError, SparingError

SECONDS = 20
MEMORY = 8 * 2**30
ROUNDS = 6


def main(seed, cases, first, paths):
    """Play the cases from `first` on; the files' cases are numbered through."""
    limits = resource.getrlimit(resource.RLIMIT_AS)
    resource.setrlimit(resource.RLIMIT_AS, (MEMORY, limits[1]))
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    warnings.simplefilter("ignore")
    np.seterr(all="ignore")
    with tempfile.TemporaryDirectory() as folder:
        for case in range(first, cases * len(paths)):
            path = paths[case // cases]
            kind, version = mutating.kind_and_version(path)
            changed = mutating.forged(*archive.read(path, kind, version), np.random.default_rng([seed, case]))
            print(json.dumps({"case": case, "change": f"{path.name}: {changed[2]}"}), flush=True)
            signal.alarm(SECONDS)
            archive.write(Path(folder) / "forged", kind, version, *changed[:2])
            outcome = played(Path(folder) / "forged", kind, case)
            signal.alarm(0)
            print(json.dumps({"case": case, "outcome": outcome}), flush=True)


def played(path, kind, case):
    """`refused`, `acted`, or what went wrong."""
    try:
        thing = load(path, kind)
    except FileError:
        return "refused"
    except BaseException as error:
        return f"loading raised {error!r}"
    try:
        (act_learner if kind == "sparing learner" else act_policy)(thing, np.random.default_rng(case))
    except SparingError:
        return "acted"
    except BaseException as error:
        return f"acting raised {error!r}"
    return "acted"


def load(path, kind):
    return sparing.load(path) if kind == "sparing learner" else sparing.load_policy(path)


def act_learner(learner, rng):
    """Be saved and loaded again, pay what was open, decide and pay, decide many at once, and be the policy."""
    save_again(learner)
    contexts = rng.random((ROUNDS, learner.n_features))
    for number in list(learner.open):
        learner.update(number, 0.5)
    rounds = [(context, None) for context in contexts]
    if learner.n_features == LOG.n_features:
        rounds += zip(LOG.contexts[:ROUNDS], LOG.context_ids, strict=False)
    for context, context_id in rounds:
        decision = learner.decide(context, context_id=context_id)
        assert decision.action in learner.action_names, decision
        assert np.isfinite([decision.value, decision.low, decision.high]).all(), decision
        if decision.needs_reward:
            learner.update(decision, float(rng.normal()))
    if learner.n_features == LOG.n_features:
        learner.decide_many(LOG.contexts, context_ids=LOG.context_ids)
    check_policy(learner.policy(), contexts, rng)


def save_again(learner):
    """What was loaded can be saved, and what was saved can be loaded."""
    with tempfile.TemporaryDirectory() as folder:
        learner.save(Path(folder) / "again")
        try:
            sparing.load(Path(folder) / "again")
        except FileError as error:
            raise AssertionError(f"saved again, it does not load: {error}") from None


def act_policy(policy, rng):
    """Say probabilities and actions for new contexts, whose length its arrays say, and for those it knows."""
    check_policy(policy, rng.random((ROUNDS, n_features(policy))), rng)
    for part in (policy, getattr(policy, "support", None), getattr(policy, "otherwise", None)):
        if hasattr(part, "contexts"):
            check_policy(policy, part.contexts[:50], rng)


def check_policy(policy, contexts, rng):
    table = policy.probabilities(contexts)
    assert table.shape == (len(contexts), len(policy.action_names))
    assert (table >= 0).all()
    assert np.allclose(table.sum(axis=1), 1, atol=0.01), table
    actions = policy.indices(contexts, rng)
    assert actions.shape == (len(contexts),)
    assert ((actions >= 0) & (actions < len(policy.action_names))).all()


def n_features(policy):
    for name in ("theta", "contexts"):
        if hasattr(policy, name):
            return getattr(policy, name).shape[1]
    return 3


if __name__ == "__main__":
    main(*map(int, sys.argv[1:4]), [Path(word) for word in sys.argv[4:]])
