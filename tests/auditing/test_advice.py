"""What an audit advises first: what is missing, what that is worth at most, and what to do."""

from dataclasses import replace

import numpy as np
import pytest

from sparing import audit, read_log
from sparing.auditing import text
from sparing.log import Log
from sparing.simulation import LinearWorld, draw_log

PLAN = "How many rewards to request: sparing plan LOG --call-cost PRICE."
LEARN = "Learn from the log and go: sparing learn LOG."


def log_of(**how):
    return draw_log(LinearWorld(n_actions=6, n_features=2, noise=0.5, seed=0), rows=600, seed=1, **how)


def test_actions_never_tried_come_first_with_their_worth():
    found = audit(log_of(never=[1, 3, 4]), reward_range=(-4, 4))
    gap = next(gap for gap in found.gap_map.gaps if gap.actions == (1, 3, 4))
    assert found.recommendation == (
        f"3 actions were never tried (1, 3, 4); learning them is worth at most {gap.upside:.3g} a decision. {PLAN}"
    )
    assert found.to_dict()["recommendation"] == found.recommendation
    first, _, rest = str(found).partition("\n\n")
    assert " ".join(first.split("\n")) == found.recommendation
    assert rest.startswith("600 rows")


def test_a_gap_is_told_in_raw_columns():
    rng = np.random.default_rng(0)
    country = rng.choice(["NZ", "AU", "UK"], 900)
    eligible = [["a", "b"] if each == "NZ" else ["a", "b", "<i>c</i>"] for each in country]
    table = {
        "country": country,
        "age": rng.integers(18, 80, 900),
        "action": [str(rng.choice(each)) for each in eligible],
        "reward": rng.random(900),
        "eligible": eligible,
    }
    found = audit(read_log(table), reward_range=(-3, 3))
    assert found.recommendation.startswith("Where country is NZ (3")
    assert "of rows), action <i>c</i> was never tried; learning it is worth at most" in found.recommendation
    assert " a decision there. " in found.recommendation


def test_a_worth_of_the_whole_range_is_not_called_a_limit():
    """That a click is worth at most 1 needs no audit; at most a tenth of the range is worth saying."""
    rng = np.random.default_rng(0)
    table = {"x": rng.random(900), "action": ["a", "b"] * 450, "reward": rng.random(900) < 0.3}
    log = read_log(table, actions=["a", "b", "c"])
    found = audit(log)
    assert 0.5 < found.gap_map.gaps[0].upside <= 1
    assert found.recommendation == (
        f"1 action was never tried (c); the log cannot tell what learning it is worth. {PLAN}"
    )
    assert "upside" not in str(found)
    assert "most" not in f"{found.headline}{text.recommendation_basis(found)}"
    assert "upside at most" not in text.gap_table(found)[0]

    def with_upside(upside, **changes):
        gaps = tuple(replace(gap, upside=upside) for gap in found.gap_map.gaps)
        return replace(found, gap_map=replace(found.gap_map, gaps=gaps), **changes)

    limited = with_upside(0.1)
    assert "learning it is worth at most 0.1 a decision" in limited.recommendation
    assert "upside at most 0.1" in str(limited)
    assert text.gap_table(limited)[1][0][-1] == "0.1"
    # Beyond all rewards: knowing their range would help.
    assert "give the range of mean rewards" in with_upside(2.0, mean_range=None).recommendation


def test_nothing_missing_means_learn():
    found = audit(log_of(unsupported=0.0))
    assert found.recommendation == (f"Nothing is missing: every row could have taken every action. {LEARN}")


def test_what_cannot_be_better_is_not_worth_asking_for():
    found = audit(log_of(never=[2]))
    gaps = tuple(replace(gap, upside=0.0) for gap in found.gap_map.gaps)
    sure = replace(found, gap_map=replace(found.gap_map, gaps=gaps))
    assert sure.recommendation == (
        f"1 action was never tried (2); learning it is worth nothing, even at best. {LEARN}"
    )


def test_no_worth_is_made_up():
    """Without bounds on the noise there is no upside, and none is named."""
    found = audit(Log.from_arrays([[1.0]], ["a"], [1.0], action_names=["a", "b"]))
    assert found.recommendation == f"1 action was never tried (b). {PLAN}"
    assert "At most" not in text.recommendation_basis(found)


@pytest.mark.parametrize(
    ("log", "says"),
    [
        (Log.empty(action_names=["a", "b"], n_features=2), "The log has no rows: log some decisions first."),
        (Log.from_arrays(np.eye(2), ["a", "b"], [1.0, 0.0]), "has too few rows to estimate it"),
        (
            Log.from_arrays(np.eye(3), list("aba"), [1.0, 0, 1], distribution=np.full((3, 2), 0.5)),
            "2 actions have fewer rows than features (b: 1 row)",
        ),
    ],
    ids=["empty", "unknown", "thin"],
)
def test_logs_too_small_to_learn_from(log, says):
    assert says in audit(log).recommendation
    assert "Learn from the log" not in audit(log).recommendation


def test_an_estimate_is_called_one():
    log = log_of(unsupported=0.0)
    found = audit(Log.from_arrays(log.contexts, log.actions, log.rewards, action_names=log.action_names))
    assert "by estimate" in found.recommendation
    assert "estimated" in text.recommendation_basis(found)


def test_what_it_rests_on_is_said():
    log, wide = log_of(never=[1]), (-4, 4)
    assert "with probability 95%" in text.recommendation_basis(audit(log, reward_range=wide))
    scaled = audit(log, radius_scale=0.2, reward_range=wide)
    assert "without a guarantee" in text.recommendation_basis(scaled)


@pytest.mark.parametrize("letters", [3, 40, 200])
def test_it_fits_a_terminal_whatever_the_names(letters):
    names = [f"{i:0{letters}d}" for i in range(30)]
    lines = text.lines(audit(Log.from_arrays(np.eye(2), names[:2], [1.0, 0.0], action_names=names)))
    assert max(map(len, lines)) <= text.WIDTH
    assert len(lines) <= 5


def test_one_action_leaves_nothing_to_choose():
    found = audit(read_log({"age": [1, 2, 3] * 30, "action": ["a"] * 90, "reward": [0, 1, 1] * 30}))
    assert found.recommendation == (
        "The log has one action, a: there is nothing to choose between. Name all that may be played (--actions A,B,…), and audit again."
    )


def test_a_gap_of_all_contexts_is_everywhere():
    rng = np.random.default_rng(0)
    actions = np.where(rng.random(5000) < 0.0006, "rare", np.where(rng.random(5000) < 0.5, "a", "b"))
    table = {"age": rng.integers(18, 80, 5000), "action": actions, "reward": rng.integers(0, 2, 5000)}
    found = audit(read_log(table))
    assert found.gap_map.gaps[0].where == "everywhere"
    assert found.recommendation.startswith("By estimate, everywhere, action rare was hardly ever tried (")
    assert " there" not in found.recommendation
