"""Which worlds are lived through: rare ones too, each for its share, with errors and intervals that hold."""

import numpy as np
import pytest

from sparing import economical
from sparing.model.statistics import Statistics
from sparing.planning import strata as made
from sparing.planning.plan import plan
from sparing.planning.strata import Strata, draw_strata, interval_rank
from sparing.planning.worlds import Worlds
from sparing.simulation import LinearWorld, draw_log


def rare(seed):
    """A log that never tried action 3, which is best in few of the worlds that the log leaves possible."""
    world = LinearWorld(n_actions=8, n_features=2, noise=0.05, seed=seed)
    return draw_log(world, rows=400, never=[3], seed=seed)


@pytest.mark.parametrize("seed", [0, 1, 3])
@pytest.mark.parametrize("worlds", [19, 40])
def test_what_is_worth_asking_in_few_worlds_only_is_asked(seed, worlds):
    """4,000 plain worlds have gains of .41 ± .05, .56 ± .07 and 1.14 ± .12; most of 19 or 40 plain ones miss all that is gained."""
    found = plan(
        rare(seed), call_cost=0.001, horizon=40, worlds=worlds, learners="economical", workers=1, seed=seed
    )
    assert found.chosen is found.options[1]
    gain = found.gain(found.options[1])
    assert abs(gain.mean - {0: 0.41, 1: 0.56, 3: 1.14}[seed]) < 3 * gain.error


@pytest.fixture(scope="module")
def tried():
    """A learner, and for 120 seeds the worlds of 19 strata of ten: what each earns in a mean, a square and what the offline policy loses."""
    start, pool = economical(rare(1), call_cost=0.001, horizon=40), rare(1).contexts[:64]
    leaders, sums = (pool @ start.sets.theta.T).argmax(axis=1), Statistics.of(rare(1))

    def possible(seed):
        return Worlds(start.prior, sums, pool, 0.0, seed)

    def features(seed, number):
        theta = possible(seed).parameters(number)
        means = pool @ theta.T
        loss = (means.max(axis=1) - means[np.arange(len(pool)), leaders]).mean()
        return theta[3, 0], theta[3, 0] ** 2, loss, means.max()

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(made, "DRAWN", 10)
        found = [draw_strata(possible(seed), start.sets.theta, 19, 1) for seed in range(120)]
    values = [np.array([features(seed, n) for n in each.numbers]) for seed, each in enumerate(found)]
    truth = np.mean([features(10**6, number) for number in range(8000)], axis=0)
    mean, spread = start.sets.theta[3, 0], start.assumptions.noise**2 * start.sets.inverse[3, 0, 0]
    truth[:2] = mean, mean**2 + spread  # known exactly
    return found, values, truth


def test_means_over_slices_are_those_over_all_worlds(tried):
    found, values, truth = tried
    means = np.array([[each.mean(y) for y in v.T] for each, v in zip(found, values, strict=True)])
    error = means.std(axis=0, ddof=1) / np.sqrt(len(means))
    assert (np.abs(means.mean(axis=0) - truth) < 4 * error).all()


def test_standard_errors_hold_what_they_promise(tried):
    """±1.645 holds nine in ten; eight and more with so few worlds, some of which are rare."""
    found, values, truth = tried
    for column in range(len(truth)):
        off = [each.mean(v[:, column]) - truth[column] for each, v in zip(found, values, strict=True)]
        error = [each.error(v[:, column]) for each, v in zip(found, values, strict=True)]
        assert np.mean(np.abs(off) <= 1.645 * np.array(error)) > 0.8
        assert 0.7 < np.sqrt(np.mean(np.square(error))) / np.sqrt(np.mean(np.square(off))) < 1.5


def test_the_order_of_slices_is_that_of_what_the_log_alone_loses(tried):
    found, values, _ = tried
    for each, v in zip(found, values, strict=True):
        assert (np.diff(v[:, 2]) >= 0).all()  # 64 contexts: all of them are looked at
        assert len(set(each.numbers.tolist())) == len(each.numbers) == 22
        assert each.sizes.tolist() == [10] * 18 + [5, 3, 1, 1]
        assert each.drawn == 190
    assert len({tuple(each.numbers.tolist()) for each in found}) == len(found)


def test_slices_are_cut_finer_at_the_dear_end_and_drawn_within_their_means():
    for size in range(made.FEWEST, made.DRAWN + 1):
        parts = made._halved(size)
        assert sum(parts) == size
        assert min(parts) >= 1
        assert parts == sorted(parts, reverse=True)
    assert made._each(40, 20, 10) == made.DRAWN
    assert made._each(40, 1000, 32) == 24  # a second or two
    assert made._each(1999, 20, 10) == 10
    assert made._each(10**6, 1000, 32) == made.FEWEST


def test_numbers_of_unequal_slices_can_be_read_off():
    one = Strata(np.arange(5), np.array([8, 8, 4, 2, 2]), 3, 1)
    values = np.array([3.0, 1.0, 6.0, 0.0, 12.0])
    assert one.mean(values) == pytest.approx(3.3333333)  # (24 + 8 + 24 + 0 + 24)/24
    assert one.median(values) == 3  # 10 of 24 below, 6 above
    assert one.limits(values) == (0, 12)
    two = Strata(one.numbers, one.sizes, 3, 2)
    assert two.limits(values) == (1, 3)  # 2 of 24 below 1, but 10 below 3; 6 above 3, but 14 above 1
    inside = np.array([2.0, 49 / 6, 121 / 6, 324 / 6, 72.0])
    overall = one.mean((values - one.mean(values)) ** 2)
    assert one.error(values) == pytest.approx(np.sqrt((one.sizes / 24) ** 2 @ inside + overall / 24))


FAMILIES = {
    "alike": lambda h, luck: luck,
    "ordered": lambda h, luck: h + luck,
    "backwards": lambda h, luck: -h + luck,
    "the first below": lambda h, luck: luck - (h == 0),
    "wider when dear": lambda h, luck: (luck - 0.5) * (h + 0.1) ** 4,
    "wider when cheap": lambda h, luck: (luck - 0.5) / (h + 0.1) ** 2,
    "dear ones low": lambda h, luck: luck - (h > 0.95),
}


@pytest.mark.parametrize("family", list(FAMILIES))
@pytest.mark.parametrize(("worlds", "confidence"), [(19, 0.9), (40, 0.9)])
def test_a_further_world_falls_inside_as_promised(family, worlds, confidence):
    """Whatever the strata have to do with the values."""
    sizes, rng = np.array([8] * (worlds - 1) + [4, 2, 1, 1]), np.random.default_rng(1)
    found = Strata(np.arange(len(sizes)), sizes, worlds, interval_rank(worlds, confidence))
    assert found.coverage >= confidence - 1e-12
    place, trials = np.arange(len(sizes)) / len(sizes), 4000
    further = rng.choice(len(sizes), size=trials, p=found.weights)
    value, inside = FAMILIES[family], 0
    for slice_ in further:
        low, high = found.limits(value(place, rng.random(len(sizes))))
        inside += low <= value(place[slice_], rng.random()) <= high
    assert inside / trials > found.coverage - 3 * np.sqrt(0.1 * 0.9 / trials)


def test_the_same_seed_takes_the_same_worlds():
    start, pool = economical(rare(0), call_cost=0.001, horizon=40), rare(0).contexts
    sums = Statistics.of(rare(0))
    one, again, other = (
        draw_strata(Worlds(start.prior, sums, pool, 0.0, seed), start.sets.theta, 19, 1) for seed in (5, 5, 6)
    )
    np.testing.assert_array_equal(one.numbers, again.numbers)
    assert one.numbers.tolist() != other.numbers.tolist()
