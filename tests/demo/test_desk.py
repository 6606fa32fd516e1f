"""The made-up desk: its truth, its log, and the money that learners make of it."""

import numpy as np
import pytest

import sparing
from sparing.demo import support_desk as desk
from sparing.demo import support_desk_page as page

SMALL = desk.DeskSetting(rows=400, rounds=300, seeds=(0, 1))


@pytest.fixture(scope="module")
def result():
    return desk.go_live(desk.begin(SMALL, desk.first_table(SMALL)))


def rng(*seed):
    return np.random.default_rng(seed)


def test_the_new_one_is_not_in_the_log_and_agents_only_for_premium():
    table = desk.logged_table(2000, rng(0))
    assert set(table[desk.ACTION]) == set(desk.HANDLERS) - {desk.NEW}
    pairs = set(zip(table["premium"], table[desk.ACTION], strict=True))
    assert ("no", "agent") not in pairs
    assert ("yes", "agent") in pairs


def test_the_file_is_the_log(tmp_path):
    table = desk.logged_table(500, rng(1))
    desk.write_table(table, tmp_path / "t.csv")
    roles = {"action": desk.ACTION, "reward": desk.REWARD, "actions": desk.HANDLERS}
    written, given = sparing.read_log(tmp_path / "t.csv", **roles), sparing.read_log(table, **roles)
    assert written.action_names == given.action_names == desk.HANDLERS
    np.testing.assert_array_equal(written.contexts, given.contexts)
    np.testing.assert_array_equal(written.actions, given.actions)
    np.testing.assert_array_equal(written.rewards, given.rewards)
    assert "months: number, some missing" in given.encoder.described()
    assert "premium: bool" in given.encoder.described()
    assert "received: time" in given.encoder.described()


def test_a_reward_is_the_call_saved_and_costs_are_known_apart():
    """Every learner learns rewards of 0 or the call's value, and compares them less the prices of answers."""
    assert set(desk.logged_table(1000, rng(2))[desk.REWARD]) == {0.0, desk.SOLVED}
    log = desk.begin(SMALL, desk.first_table(SMALL)).log
    for name, learner in SMALL.learners(log, 0).items():
        assert learner.costs == desk.PRICES, name
    drawn = desk.tickets(50, rng(7))
    stream = desk.live_stream(drawn, log.encoder.encode_table(drawn.columns), rng(8))
    assert {stream.reward(t, 3) for t in range(50)} == {0.0, desk.SOLVED}


def test_what_is_earned_is_after_the_answers_cost(result):
    """The best in each round is that of what is saved less the price; the sums are those of the actions played."""
    prices = np.array(list(desk.PRICES.values()))
    for number, seed in enumerate(SMALL.seeds):
        drawn = desk.tickets(SMALL.rounds, np.random.default_rng([seed, 2]), first=SMALL.rows)
        net = desk.SOLVED * drawn.chances - prices
        np.testing.assert_allclose(result[desk.TRUTH].runs[number].earned, net.max(axis=1))
        for outcome in result.outcomes:
            run = outcome.runs[number]
            np.testing.assert_allclose(run.earned, net[np.arange(SMALL.rounds), run.actions])


def test_rewards_have_the_means_that_the_truth_says():
    drawn = desk.tickets(4000, rng(3))
    stream = desk.live_stream(drawn, np.zeros((len(drawn), 1)), rng(4))
    for action in range(len(desk.HANDLERS)):
        earned = np.array([stream.reward(t, action) for t in range(len(stream))])
        error = earned.std() / np.sqrt(len(earned))
        assert abs(earned.mean() - stream.means[:, action].mean()) < 4 * error


def test_the_truth_is_logistic_with_the_interactions_it_names():
    drawn = desk.tickets(4000, rng(5))
    odds = np.log(drawn.chances / (1 - drawn.chances))
    column = {name: np.array(cells, dtype=object) for name, cells in drawn.columns.items()}
    guest = np.array([months is None for months in column["months"]])
    place = {name: number for number, name in enumerate(desk.HANDLERS)}
    plain = (
        odds
        - desk.SKILLS[:, [desk.TOPICS.index(topic) for topic in column["topic"]]].T
        + 0.3 * guest[:, None]
    )
    fault = (column["topic"] == "fault") & (column["via"] == "chat")
    hour = np.array([int(moment[11:13]) for moment in column["received"]])
    months = np.array([months or 0 for months in column["months"]], dtype=float)
    told = {
        "template": -0.02 * months - 0.8 * fault,
        "small-llm": -0.8 * fault,
        "large-llm": -0.8 * fault,
        "agent": -1.2 * ((hour >= 22) | (hour < 6)),
        "new-llm": -1.5 * (column["country"] == "PL") - 0.8 * fault,
    }
    for name, effect in told.items():
        np.testing.assert_allclose(plain[:, place[name]], effect.astype(float), atol=1e-9)


def test_money_adds_up(result):
    for outcome in result.outcomes:
        np.testing.assert_allclose(outcome.net, outcome.earned - outcome.paid)
        np.testing.assert_allclose(outcome.paid, desk.REVIEW * outcome.calls)
        np.testing.assert_allclose(outcome.over_time[:, -1], outcome.net)
        np.testing.assert_array_equal(outcome.calls_of(len(desk.HANDLERS)).sum(axis=1), outcome.calls)
    for name in (desk.COLD, desk.WARM):
        assert (result[name].calls == SMALL.rounds).all()
    for name in (desk.ALONE, desk.TRUTH):
        assert not result[name].calls.any()


def test_nobody_beats_the_truth_in_any_round(result):
    best = np.array([run.earned for run in result[desk.TRUTH].runs])
    for outcome in result.outcomes:
        assert (np.array([run.earned for run in outcome.runs]) <= best).all()


def test_what_never_was_tried_is_what_is_asked_about():
    """The whole setting on one seed: money, not the rule, is looked at."""
    setting = desk.DeskSetting(seeds=(1,))
    found = desk.go_live(desk.begin(setting, desk.first_table(setting)))
    ours = found[desk.ECONOMICAL]
    assert ours.net[0] > max(found[name].net[0] for name in (desk.ALONE, desk.COLD, desk.WARM))
    assert ours.calls_of(len(desk.HANDLERS))[0, desk.HANDLERS.index(desk.NEW)] > 0.5 * ours.calls[0]
    assert ours.calls[0] < 0.2 * setting.rounds


def test_the_verdict_says_what_came_out(result):
    """With the money of two learners exchanged, the sentence turns round."""
    ours, alone = result[desk.ECONOMICAL], result[desk.ALONE]
    renamed = {desk.ECONOMICAL: alone.runs, desk.ALONE: ours.runs}
    turned = desk.DeskResult(
        result.begun,
        tuple(
            desk.LearnerOutcome(each.name, each.call_cost, renamed.get(each.name, each.runs))
            for each in result.outcomes
        ),
    )
    difference = float((ours.net - alone.net).mean())
    words = ("more", "less") if difference > 0 else ("less", "more")
    for shown, word in zip((result, turned), words, strict=True):
        assert f"EUR: {abs(difference):,.0f} {word} than the offline policy" in page.verdict(shown)


def test_what_is_shown_of_the_log_fits_a_terminal():
    table = desk.logged_table(2000, rng(0, 1))
    lines = page.sample_text(table).split("\n")
    assert len(lines) == 1 + page.SHOWN
    assert max(map(len, lines)) <= page.WIDTH
