"""Explanations: contributions of raw columns that sum to the estimate and the gap, of the state that the decision was made by."""

import copy
import json
import math
import pickle
from decimal import Decimal

import numpy as np
import pandas as pd
import pytest

import sparing
from sparing.errors import DecisionError, SpellingWarning, UnitWarning
from sparing.online.explanation import round_to_sum

ROW = {"age": 31, "country": "NZ", "member": True, "seen": "2026-03-05T10:00"}
ODD = {"age": 300, "country": "nowhere", "member": None, "seen": "2026-03-05T10:00"}


def visits(n=600, seed=0):
    rng = np.random.default_rng(seed)
    age, country = rng.integers(18, 80, n).astype(float), rng.choice(["NZ", "CH", "DE"], n)
    banner = rng.choice(["red", "blue", "green"], n)
    rate = 0.2 + 0.4 * ((banner == "red") & (country == "NZ")) + 0.3 * ((banner == "blue") & (age > 50))
    member = np.where(rng.random(n) < 0.1, None, rng.random(n) < 0.4)
    seen = pd.Timestamp("2026-03-01", tz="UTC") + pd.to_timedelta(17 * np.arange(n), "min")
    clicked = (rng.random(n) < rate).astype(float)
    columns = {"age": age, "country": country, "member": member, "seen": seen}
    return pd.DataFrame(columns | {"banner": banner, "clicked": clicked})


def read(**settings):
    return sparing.read_log(visits(), action="banner", reward="clicked", **settings)


@pytest.fixture(scope="module")
def log():
    return read()


@pytest.fixture
def learner(log):
    return sparing.confident(log, tolerance=0.05)


def sums(made):
    """Whether the parts of an explanation sum to what it shows, to rounding; a named tolerance of the documentation."""
    amounts = [made.base, *(each.amount for each in made.contributions)]
    gaps = [made.base_gap, *(each.gap for each in made.contributions)]
    for parts, total in ((amounts, made.estimate), (gaps, made.gap)):
        largest = max(map(abs, (*parts, total)))
        assert abs(math.fsum(parts) - total) <= 2.0**-52 * largest
    return True


LEARNERS = {
    "economical": (sparing.economical, {"call_cost": 0.01, "horizon": 500}),
    "certified": (sparing.certified, {"radius_scale": 0.3}),
    "lints": (sparing.lints, {}),
    "eps_moful": (sparing.eps_moful, {"supported": sparing.most_logged(2)}),
}


@pytest.mark.parametrize("name", LEARNERS)
def test_parts_sum_to_the_decision_s_own_estimate(log, name):
    make, settings = LEARNERS[name]
    learner, rng = make(log, **settings), np.random.default_rng(1)
    others = [{**ROW, "age": float(age)} for age in rng.uniform(0, 100, 40)]
    for row in (ROW, ODD, *others):
        decision = learner.decide(row)
        made = decision.explain()
        assert (made.action, made.estimate) == (decision.action, decision.value)
        assert sums(made)
        if decision.needs_reward:
            learner.update(decision, float(rng.random() < 0.5))


def test_amounts_are_differences_from_the_mean_of_all_rows(learner, log):
    """The reference is an average by hand, of the log's rows and the live ones."""
    live, rng = [], np.random.default_rng(2)
    for age in rng.uniform(18, 80, 60):
        decision = learner.decide({**ROW, "age": float(age)})
        if decision.needs_reward:
            live.append(learner.context({**ROW, "age": float(age)}))
            learner.update(decision, 0.0)
    assert live
    rows = np.vstack([learner.encoder.completed(log.contexts), live])
    made = learner.explain(ROW, "green", against="red")
    assert made.rows == len(rows)
    own, other = (learner.sets.theta[learner.index(name)] for name in ("green", "red"))
    average, x = rows.mean(axis=0), learner.context(ROW)
    np.testing.assert_allclose(made.base, average @ own, rtol=1e-9)
    np.testing.assert_allclose(made.base_gap, average @ (own - other), rtol=1e-9)
    for each in made.contributions:
        part = [i for i, name in enumerate(learner.encoder.names) if name.startswith(each.column)]
        delta = (x - average)[part]
        np.testing.assert_allclose(each.amount, delta @ own[part], rtol=1e-9, atol=1e-12)
        np.testing.assert_allclose(each.gap, delta @ (own - other)[part], rtol=1e-9, atol=1e-12)
    gaps = [abs(each.gap) for each in made.contributions]
    assert gaps == sorted(gaps, reverse=True)


def test_another_value_changes_the_contribution_of_its_column_alone(learner):
    before, after = (learner.explain({**ROW, "country": country}, "red") for country in ("NZ", "CH"))
    one, two = ({each.column: each.amount for each in made.contributions} for made in (before, after))
    assert one.pop("country") - two.pop("country") == pytest.approx(before.estimate - after.estimate)
    assert (one, before.base) == (two, pytest.approx(after.base))


def test_kernel_features_are_one_line_and_raw_numbers_are_compared_with_zero():
    kernel = sparing.confident(read(features=sparing.features("auto", kernel=sparing.nystroem(16))))
    made = kernel.decide(ROW).explain()
    assert sums(made)
    assert {each.kind for each in made.contributions} == {
        "number",
        "category",
        "bool",
        "time",
        "interactions",
    }
    world = sparing.simulation.LinearWorld(n_actions=4, n_features=3, noise=0.5, seed=0)
    raw = sparing.confident(sparing.simulation.draw_log(world, rows=200, support="region", seed=1))
    x = [0.5, -1.0, 2.0]
    made = raw.explain(x, 1)
    assert (made.rows, made.base) == (0, pytest.approx(0, abs=1e-15))
    found = {each.column: (each.value, each.amount) for each in made.contributions}
    assert found == {
        f"x_{i}": (x[i], pytest.approx(x[i] * weight)) for i, weight in enumerate(raw.sets.theta[1])
    }
    assert sums(made)


def test_known_costs_are_a_line_and_decide_the_runner_up(log):
    learner = sparing.confident(log, tolerance=0.05, costs={"red": 0.1, "blue": 0.0, "green": 0.5})
    means = learner.sets.evaluate(learner.context(ROW))[0]
    for own in (None, {"red": 9.0}):
        decision = learner.decide(ROW, costs=own)
        made, costs = decision.explain(), (learner.costs or {}) | (own or {})
        net = {name: means[learner.index(name)] - cost for name, cost in costs.items()}
        assert made.against == max((name for name in net if name != made.action), key=net.get)
        assert made.estimate == decision.value == pytest.approx(net[made.action])
        assert made.gap == pytest.approx(net[made.action] - net[made.against])
        assert sums(made)
        (line,) = (each for each in made.contributions if each.kind == "cost")
        assert (line.value, line.amount) == (costs[made.action], -costs[made.action])
        assert line.gap == pytest.approx(costs[made.against] - costs[made.action])
        assert made == learner.explain(ROW, made.action, costs=own)
    before = learner.decide(ROW)
    learner.set_costs({"red": 2.0})
    with pytest.raises(DecisionError, match="has changed"):
        before.explain()


def test_words_sum_to_the_contribution_of_their_text():
    rng = np.random.default_rng(5)
    texts = [" ".join(rng.choice(["write", "poem", "python", "code", "sea", "list"], 5)) for _ in range(200)]
    reward = [float("poem" in text) + 0.1 * rng.normal() for text in texts]
    table = {"prompt": texts, "size": rng.normal(size=200), "action": ["a", "b"] * 100, "reward": reward}
    learner = sparing.confident(sparing.read_log(table, features=sparing.features("auto", prompt="text")))
    prompt = "Write a poem, not code, about the sea and twelve other things that no list of words has"
    for against in ("b", None):
        made = learner.explain({"prompt": prompt, "size": 1.0}, "a", eligible=None if against else ["a"])
        assert made.against == against
        (text,) = (each for each in made.contributions if each.kind == "text")
        *named, rest = text.words
        assert rest.word == ""
        assert len({each.word for each in named}) == len(named) <= 10
        assert math.fsum(each.amount for each in text.words) == pytest.approx(text.amount, abs=1e-14)
        strengths = [abs(each.gap if against else each.amount) for each in named]
        assert strengths == sorted(strengths, reverse=True)
        lines = str(made).splitlines()
        place = next(number for number, line in enumerate(lines) if line.startswith("prompt"))
        words = [line for line in lines if line.startswith("  ")]
        count = 2 if against else 1
        for column in range(count):
            assert sum(shown(line, count)[column] for line in words) == shown(lines[place], count)[column]
        assert "“poem”" in made._repr_html_()
    by_hand = learner.encoder.by_column["prompt"].contributions(prompt, learner.sets.theta[0][1:-1])
    assert {each.word: each.amount for each in named}.items() <= by_hand[0].items()
    assert all(each.words == () for each in learner.explain({"prompt": None, "size": 0.0}).contributions)


def test_the_runner_up_is_the_best_of_the_other_eligible_actions(learner):
    names, means = learner.action_names, learner.sets.evaluate(learner.context(ROW))[0]
    best, second, third = (names[i] for i in np.argsort(-means))
    assert (learner.explain(ROW).action, learner.explain(ROW).against) == (best, second)
    assert learner.explain(ROW, eligible=[best, third]).against == third
    assert learner.decide(ROW, eligible=[second, third]).explain().against in (second, third)
    worse = learner.explain(ROW, third)
    assert (worse.against, worse.gap < 0) == (best, True)
    assert "below" in worse.title
    alone = learner.decide(ROW, eligible=[third]).explain()
    assert (alone.against, alone.gap, alone.base_gap) == (None, None, None)
    assert "gap" not in str(alone)
    learner.retire(second)
    assert learner.explain(ROW).against == third
    with pytest.raises(DecisionError, match="another one"):
        learner.explain(ROW, best, against=best)
    with pytest.raises(DecisionError, match="unknown"):
        learner.explain(ROW, against="gold")


def test_a_decision_is_explained_by_its_own_state_or_not_at_all(learner):
    first = learner.decide(ROW)
    kept, plain = learner.decide(ODD, explain=True), learner.decide(ODD)
    asked = next(
        one for one in iter(lambda: learner.decide(ODD, eligible=["green"]), None) if one.needs_reward
    )
    before = first.explain()  # deciding changes no estimate
    learner.update(asked, 1.0)
    for late in (first, plain):
        with pytest.raises(DecisionError, match="explain=True"):
            late.explain()
    assert kept.explain() == kept.explain(against=kept.explain().against)
    assert kept.explain().estimate == kept.value
    with pytest.raises(DecisionError, match="has changed"):
        kept.explain(
            against=next(
                name for name in learner.action_names if name not in kept.explain().to_dict().values()
            )
        )
    assert before != learner.explain(ROW, first.action, against="green")
    assert sums(sparing.confident(read()).decide(ROW).explain())


def test_a_context_that_was_changed_is_noticed(learner):
    x = learner.context(ROW)
    decision = learner.decide(x)
    x[1] += 1.0
    with pytest.raises(DecisionError, match="context of decision 0 has changed"):
        decision.explain()


def test_copies_are_equal_and_have_no_context(learner, tmp_path):
    decision = learner.decide(ROW)
    for twin in (pickle.loads(pickle.dumps(decision)), copy.deepcopy(decision), copy.copy(decision)):
        assert twin == decision
        assert hash(twin) == hash(decision)
        assert (twin != decision) is False
        with pytest.raises(DecisionError, match="copy, or from a file"):
            twin.explain()
    while not decision.needs_reward:
        decision = learner.decide(ODD, eligible=["green"])
    learner.save(tmp_path / "learner.npz")
    assert sparing.load(tmp_path / "learner.npz").open[decision.id] == decision
    assert learner.copy().open[decision.id] == decision


def test_rows_and_frames_are_explained_with_their_values(learner):
    frame = pd.DataFrame([ROW])
    expected = learner.explain(ROW)
    for x in (frame.iloc[0], frame):
        assert learner.decide(x).explain() == expected
    by_number = learner.explain(learner.context(ROW))
    assert {each.value for each in by_number.contributions} == {None}
    assert sums(by_number)


def test_what_is_particular_is_said_and_words_stay_words(learner):
    made = learner.explain({**ODD, "country": "<script>"})
    found = {each.column: each for each in made.contributions}
    assert found["age"].note.startswith("beyond the log, counted as 8")
    assert (found["country"].note, found["member"].note, found["seen"].note) == (
        "not in the log",
        "missing",
        "",
    )
    assert found["member"].value is None
    assert "<script>" not in made._repr_html_()
    assert "&lt;script&gt;" in made._repr_html_()
    assert json.loads(json.dumps(made.to_dict(), allow_nan=False))["contributions"][0]["column"] in found
    assert all("not in the log" not in each.note for each in learner.explain(ROW).contributions)
    with pytest.warns(SpellingWarning):
        learner.explain({**ROW, "country": "nz"})
    with pytest.warns(UnitWarning):
        huge = learner.explain({**ROW, "age": 10**30})
    assert [each.value for each in huge.contributions if each.column == "age"] == [1e30]


def shown(line, places):
    return [Decimal(number) for number in line.split()[-places:]]


def test_the_numbers_of_a_text_sum_as_they_stand(learner):
    wide = {f"n{i}": np.random.default_rng(i).normal(size=80) for i in range(15)}
    table = wide | {"action": ["a", "b"] * 40, "reward": np.random.default_rng(99).normal(size=80)}
    many = sparing.confident(sparing.read_log(table, features="auto"))
    for made in (learner.explain(ROW), learner.explain(ODD), many.explain({name: 1.5 for name in wide})):
        title, head, *lines, total = str(made).splitlines()
        columns = list(zip(*(shown(line, 2) for line in lines), strict=True))
        assert [sum(column) for column in columns] == shown(total, 2)
        assert f"{made.estimate:.3g}"[:4] in title
        assert head.split() == ["column", "estimate", "gap"]
    assert "6 other columns" in str(made)


def test_rounding_to_a_sum_moves_no_number_by_a_unit():
    rng = np.random.default_rng(3)
    for _ in range(200):
        parts, places = (
            rng.normal(size=rng.integers(1, 12)) * 10 ** rng.uniform(-3, 3),
            int(rng.integers(0, 5)),
        )
        fair = round_to_sum(parts.tolist(), math.fsum(parts), places)
        assert round(math.fsum(fair) - math.fsum(parts), places + 6) == pytest.approx(
            0, abs=0.5000001 * 10.0**-places
        )
        assert np.abs(np.array(fair) - parts).max() < 10.0**-places
