"""The verdict: its distribution is the joint posterior's, its words name the segment, and its interval covers."""

import numpy as np
import pytest
from scipy import stats

import sparing
from reference.asking import HyperpriorWorld, told_verdict
from sparing.asking.ask import best_actions
from sparing.asking.verdict import describe, gain_distribution, merged, mixture_limits, moved_weights
from sparing.auditing.segments import Binned, Leaf, Segment
from sparing.errors import SettingError
from sparing.model.posterior import posterior_mean
from sparing.planning.worlds import Worlds


def test_the_gain_has_the_distribution_of_worlds_drawn_from_the_posterior():
    world = HyperpriorWorld(5, binary=False, rows=200)
    queue = sparing.ask(world.log, calls=20, call_cost=0.001, horizon=1000, actions=[world.new])
    rows = np.array([call.row for call in queue.calls])
    after = queue.tell(world.rewards(rows, np.full(len(rows), world.new)).tolist())
    rng = np.random.default_rng(0)
    before, then = rng.integers(4, size=200), rng.integers(5, size=200)
    weights = moved_weights(world.contexts, before, then, 5)
    theta = rng.standard_normal((5, 5))
    means, places = world.contexts @ theta.T, np.arange(200)
    gain = (means[places, then] - means[places, before]).mean()
    assert (weights * theta).sum() == pytest.approx(gain)
    sums = queue.request.sums(after.queue.judged_log())
    mixture = gain_distribution(after.learner.prior, sums, weights)
    worlds = Worlds(after.learner.prior, sums, world.contexts, 0.0, 7)
    drawn = np.array([(weights * worlds.parameters(number)).sum() for number in range(2000)])
    mean = float(mixture[0] @ mixture[1])
    assert mean == pytest.approx(drawn.mean(), abs=4 * drawn.std() / 2000**0.5)
    low, high = mixture_limits(mixture, 0.9)
    assert ((drawn > low) & (drawn < high)).mean() == pytest.approx(0.9, abs=0.027)  # four standard errors
    assert ((drawn > mean - (mean - low) / 2) & (drawn < mean + (high - mean) / 2)).mean() < 0.7


def judged_table(new_is_better):
    rng = np.random.default_rng(0)
    n = 800
    table = {"age": rng.integers(18, 80, n).tolist(), "topic": rng.choice(["billing", "tech"], n).tolist()}
    table["action"] = rng.choice(["small", "large"], n).tolist()
    table["reward"] = (rng.standard_normal(n) * 0.3 + 0.5).tolist()
    log = sparing.read_log(table, features="auto")
    queue = sparing.ask(log, calls=60, call_cost=0.005, horizon=20_000, actions=["new"], table=table)
    place = queue.columns.index("topic")
    told = [
        (1.5 if new_is_better and call.cells[place] == "billing" else -0.5) + 0.3 * rng.standard_normal()
        for call in queue.calls
    ]
    return queue, queue.tell(told)


def test_it_says_where_to_switch_to_what_and_what_that_is_worth():
    queue, after = judged_table(new_is_better=True)
    verdict = after.verdict
    assert verdict.kind == "switch"
    (switch,) = verdict.switches
    billing = np.mean([cells[1] == "billing" for cells in queue.request.pool.cells(range(800)).values()])
    assert (switch.action, switch.where) == ("new", "where topic is billing")
    assert switch.share == pytest.approx(billing)
    assert 0 < verdict.low < verdict.worth < verdict.high
    assert verdict.worth == pytest.approx(20_000 * billing * 1.0, rel=0.1)
    assert str(verdict).startswith(
        f"switch {switch.share:.0%} of the traffic (where topic is billing) to new: worth "
    )
    assert verdict.to_dict()["level"] == 0.9


def test_neighbouring_parts_of_the_traffic_are_named_as_one():
    """Hits are where x_0 ≤ 0.3, fewer where x_1 > 0.5: a tree parts them there too, and one condition says it."""
    rng = np.random.default_rng(0)
    contexts = rng.random((4000, 3))
    hit = (contexts[:, 0] <= 0.3) & (rng.random(4000) < np.where(contexts[:, 1] > 0.5, 0.8, 0.99))
    encoder = sparing.Log.from_arrays(contexts, [0] * 4000, [0.0] * 4000).encoder
    leaves = Binned(contexts).leaves(hit, smallest=80, max_share=0.5, depth=2)
    assert sum(leaf.hits > 0.5 * leaf.size for leaf in leaves) == 2
    said = describe(contexts, hit, encoder)
    assert said.startswith("where x_0 ≤ 0.")
    assert "x_1" not in said
    high, low = (Leaf(Segment().restricted(1, *ends), 5, 4) for ends in ((0.5, np.inf), (-np.inf, 0.5)))
    assert merged([high, low]) == [Leaf(Segment(), 10, 8)]
    apart = [low, Leaf(Segment().restricted(0, 0.5, np.inf), 5, 4)]
    assert merged(apart) == apart


def test_it_says_not_to_switch_where_the_new_action_is_worse_everywhere():
    _, after = judged_table(new_is_better=False)
    while after.queue.calls:
        after = after.queue.tell([-0.5] * len(after.queue))
    assert after.verdict.kind == "do not switch"
    assert not after.verdict.switches
    assert abs(after.verdict.worth) < 1
    assert "no further judged answer would repay itself" in str(after.verdict)


def test_without_enough_answers_it_is_undecided():
    world = HyperpriorWorld(3, binary=True)
    verdict = told_verdict(world, calls=3)[0]
    assert verdict.kind == "undecided"
    assert verdict.more > 0


def test_reward_less_cost_is_compared():
    world = HyperpriorWorld(6, binary=False, rows=200)
    log, costs = world.log, np.array([0.1, 0.0, -0.2, 0.05, 0.3])
    known = {
        "calls": 15,
        "call_cost": 0.01,
        "horizon": 5000,
        "actions": [4],
        "prior_scale": 0.5,
        "noise": 1.0,
    }
    apart = sparing.ask(log, costs=costs, prior_mean=np.zeros(5), **known)
    free = sparing.ask(log, prior_mean=np.zeros(5), **known)
    rows = np.array([call.row for call in apart.calls])
    rewards = world.rewards(rows, np.full(len(rows), 4))
    after = apart.tell(rewards.tolist())
    request = after.queue.request
    contexts, everyone = request.pool.contexts, np.ones(5, dtype=bool)
    best = (contexts @ after.learner.sets.theta.T - costs).argmax(axis=1)
    np.testing.assert_array_equal(best_actions(after.learner, contexts, everyone), best)
    before = (contexts @ request.alone.sets.theta[:4].T - costs[:4]).argmax(axis=1)
    sums = request.sums(after.queue.judged_log())
    mean = posterior_mean(after.learner.prior, sums)
    gain = (contexts @ mean.T - costs)[np.arange(200), best] - (contexts @ mean.T - costs)[
        np.arange(200), before
    ]
    assert after.verdict.worth == pytest.approx(5000 * gain.mean(), rel=1e-6)
    assert [call.id for call in apart.calls] != [call.id for call in free.calls]
    with pytest.raises(SettingError, match="costs leaves out 1 of 6"):
        sparing.ask(log, costs=dict(enumerate(costs)), call_cost=0.1, actions=["new"])


@pytest.mark.thorough
@pytest.mark.parametrize("binary", [False, True])
def test_its_interval_covers_in_worlds_with_scales_of_the_hyperprior(binary):
    """90 % nominal, in 200 worlds; where a switch is advised, it gains."""
    found = [told_verdict(HyperpriorWorld(seed, binary=binary)) for seed in range(200)]
    moved = [held for verdict, held, *_ in found if verdict.low < verdict.high]
    assert len(moved) > 120
    for covered in (moved, [held for _, held, *_ in found]):
        assert 0.85 <= np.mean(covered) <= 0.96
    advised = [truth for verdict, _, truth, _ in found if verdict.kind == "switch"]
    # The lower end of the interval is above 0: at most 5 % of them lose, up to chance.
    assert sum(truth <= 0 for truth in advised) <= stats.binom.ppf(0.999, len(advised), 0.05)
