"""Answers: however they come, equal; every mistake named at once by its line, and nothing taken in."""

import csv

import numpy as np
import pytest

import sparing
from reference.asking import HyperpriorWorld
from sparing.asking.answers import escaped, judged_rows, unescaped, with_answers
from sparing.errors import LogError


@pytest.fixture(scope="module")
def asked():
    world = HyperpriorWorld(1, binary=True, actions=3, features=3, rows=120)
    log = sparing.Log.from_arrays(
        world.contexts,
        np.array(["small", "large"])[world.log.actions],
        world.log.rewards,
        action_names=["small", "large", "=new"],
        feature_names=["one", "-x", "y"],
    )
    return log, sparing.ask(log, calls=6, call_cost=0.001, horizon=5000, actions=["=new"])


def test_a_log_read_as_a_learner_reads_contexts(tmp_path):
    """As what a service exports: its encoder has places for values that no log had, which are no columns of a row."""
    rng = np.random.default_rng(0)
    table = {
        "device": rng.choice(["phone", "tablet"], 200),
        "action": rng.choice(["a", "b"], 200),
        "reward": rng.normal(size=200),
    }
    learner = sparing.economical(sparing.read_log(table), call_cost=0.1, horizon=100)
    assert "device is unseen" in learner.encoder.names
    log = sparing.read_log(table, features=learner.encoder)
    queue = sparing.ask(log, actions=["new"], calls=3, call_cost=1e-4, horizon=5000)
    assert queue.columns == ("constant", "device=phone", "device=tablet")
    for call, shown in zip(queue.calls, queue.to_dict()["calls"], strict=True):
        word = table["device"][call.row]
        assert shown["columns"] == {
            "constant": "1.0",
            **{f"device={each}": str(float(each == word)) for each in ("phone", "tablet")},
        }
    queue.write(tmp_path / "queue.csv")
    filled(tmp_path / "queue.csv", [1.0] * len(queue.calls))
    assert len(queue.calls) == 3
    assert queue.tell(tmp_path / "queue.csv").queue.answered


def rewritten(path, change, delimiter=","):
    with path.open(encoding="utf-8", newline="") as file:
        header, *rows = csv.reader(file)
    rows = [dict(zip(header, row, strict=True)) for row in rows]
    change(rows)
    with path.open("w", encoding="utf-8", newline="") as file:
        writer = csv.writer(file, delimiter=delimiter)
        writer.writerows([header, *([row.get(name, "") for name in header] for row in rows)])


def filled(path, values, delimiter=","):
    rewritten(
        path,
        lambda rows: [row.update(reward=value) for row, value in zip(rows, values, strict=True)],
        delimiter,
    )


def test_in_order_by_id_as_a_frame_and_from_a_file_are_equal(asked, tmp_path):
    _, queue = asked
    values = [1, 0, None, 1, 0, 1]
    queue.write(tmp_path / "queue.csv")
    text = (tmp_path / "queue.csv").read_text(encoding="utf-8")
    assert text.splitlines()[0] == "id,row,one,'-x,y,action,worth,why,reward"
    assert ",'=new," in text
    assert ",=new" not in text
    filled(tmp_path / "queue.csv", ["" if value is None else value for value in values])
    frame = queue.to_frame()
    frame["reward"] = values
    ways = [
        values,
        {call.id: value for call, value in zip(queue.calls, values, strict=True)},
        frame,
        tmp_path / "queue.csv",
        [tmp_path / "queue.csv"],
    ]
    told = [queue.tell(way) for way in ways]
    assert len({one.learner.digest() for one in told}) == 1
    assert len({str(one.verdict) for one in told}) == 1
    for one in told:
        np.testing.assert_array_equal(one.learner.sets.theta, told[0].learner.sets.theta)
        assert one.verdict.judged == 5
        assert one.queue.calls[0].id == queue.calls[2].id, "an unanswered call stays open"


def test_a_spreadsheet_may_part_cells_by_semicolons_and_mangle_columns(asked, tmp_path):
    _, queue = asked
    queue.write(tmp_path / "q.csv")
    filled(tmp_path / "q.csv", ["1,0", "0", "1", "", "0,0", "1"], ";")
    text = (tmp_path / "q.csv").read_text(encoding="utf-8").replace("0.", "0,")
    (tmp_path / "q.csv").write_text("\ufeff" + text, encoding="utf-8")
    plain = queue.tell([1, 0, 1, None, 0, 1])
    assert str(queue.tell(tmp_path / "q.csv").verdict) == str(plain.verdict)


@pytest.mark.parametrize("encoding", ["utf-16", "cp1252"])
def test_a_spreadsheet_may_write_its_own_encoding_and_sort_lines(asked, tmp_path, encoding):
    """Excel's "Unicode text" and its plain CSV; what is learnt does not depend on the order of lines, to the last bit."""
    _, queue = asked
    path = tmp_path / "q.csv"
    queue.write(path)
    filled(path, ["1,0", "0", "1", "", "0,0", "1"])

    def sort(rows):
        rows[:] = [{**row, "why": "für größere Läden"} for row in reversed(rows)]

    rewritten(path, sort, ";")
    path.write_bytes(path.read_text(encoding="utf-8").encode(encoding))
    plain, moved = queue.tell([1, 0, 1, None, 0, 1]), queue.tell(path)
    assert moved.learner.digest() == plain.learner.digest()
    assert [call.id for call in moved.queue.calls] == [call.id for call in plain.queue.calls]


def test_every_mistake_is_named_by_its_line_and_nothing_is_taken_in(asked, tmp_path):
    _, queue = asked
    path = tmp_path / "queue.csv"
    queue.write(path)

    def spoil(rows):
        rows[0]["reward"], rows[1]["reward"], rows[2]["reward"] = "2", "yes", "1"
        rows[3]["id"], rows[3]["reward"] = rows[2]["id"], "0"
        rows[4]["id"], rows[4]["reward"] = "r3-000000", "1"
        rows[5]["id"] = "7"

    rewritten(path, spoil)
    with pytest.raises(LogError) as error:
        queue.tell(path)
    lines = str(error.value).splitlines()
    assert "5 of 6 answers" in lines[0]
    for line, (number, what) in zip(
        lines[1:],
        [
            (2, "outside 0 to 1"),
            (3, "'yes' is not a finite number; write it such as 0.5"),
            (5, "line 4"),
            (6, "of another log"),
            (7, "'7' is unknown"),
        ],
        strict=True,
    ):
        assert f"line {number}: " in line
        assert what in line
    assert not queue.answered
    for text, said in [
        ("a,b\n1,2\n", "no column 'id'"),
        ("id,reward\nr1-0,1,2\n", "3 cells"),
        ("", "is empty"),
    ]:
        path.write_text(text)
        with pytest.raises(LogError, match=said):
            queue.tell(path)
    path.write_bytes(b"PK\x03\x04\xff\xfe")
    with pytest.raises(LogError, match="Excel"):
        queue.tell(path)
    with pytest.raises(LogError, match="2 answers for 6 calls"):
        queue.tell([1, 0])


def test_no_reward_is_overwritten(asked, tmp_path):
    _, queue = asked
    path = tmp_path / "queue.csv"
    queue.write(path)
    queue.write(path)
    filled(path, [1, "", "", "", "", ""])
    with pytest.raises(LogError, match="1 rewards already"):
        queue.write(path)
    after = queue.tell(path)
    with pytest.raises(LogError, match="has a reward already"):
        after.queue.tell({queue.calls[0].id: 0})


def test_a_text_that_looks_like_a_formula_survives_both_ways():
    texts = ["=1+1", "+49 30", "-2+3", "@x", "'=x", "''", "'", "plain", "", "\t=1", "a=b", "'a", "-", "+"]
    for text in texts:
        written = escaped(text)
        assert unescaped(written) == text
        assert not written.startswith(("=", "+", "-", "@", "\t", "\r"))
    assert [escaped(number) for number in ("-3.5", "+2", "1e-5")] == ["-3.5", "+2", "1e-5"]


def test_answers_are_rows_of_the_log_without_propensities(asked, tmp_path):
    log, queue = asked
    queue.write(tmp_path / "queue.csv")
    values = [1, 0, 1, 1, 0, 1]
    filled(tmp_path / "queue.csv", values)
    judged = judged_rows(log, [tmp_path / "queue.csv"])
    np.testing.assert_array_equal(judged.contexts, log.contexts[sorted(call.row for call in queue.calls)])
    both = with_answers(log, judged)
    assert (both.n_rows, both.propensities) == (log.n_rows + 6, None)
    after, direct = queue.tell(values), sparing.economical(both, call_cost=0.001, horizon=5000)
    np.testing.assert_allclose(after.learner.sets.theta, direct.sets.theta, rtol=1e-9)
    shorter = sparing.Log.from_arrays(log.contexts, np.array(log.action_names)[log.actions], log.rewards)
    extended = with_answers(shorter, judged_rows(shorter, tmp_path / "queue.csv"))
    assert extended.action_names == ("large", "small", "=new")
    np.testing.assert_array_equal(extended.counts, both.counts[[1, 0, 2]])


def test_learning_uses_judged_rows_outside_held_out_contexts_and_weighted_methods_leave_them_out():
    world = HyperpriorWorld(2, binary=False, actions=3, features=3, rows=400)
    log = sparing.Log.from_arrays(
        world.contexts,
        world.log.actions,
        world.log.rewards,
        action_names=[0, 1, 2],
        propensities=np.full(400, 0.5),
    )
    rows = np.arange(60)
    judged = sparing.Log.from_arrays(
        world.contexts[:60], [2] * 60, world.rewards(rows, np.full(60, 2)) + 9, action_names=[0, 1, 2]
    )
    policy = sparing.learn(log, "greedy", judged=judged)
    both = sparing.learn(with_answers(log, judged), "greedy")
    np.testing.assert_array_equal(policy.theta, both.theta)
    assert (policy.probabilities(world.contexts)[:, 2] == 1).mean() > 0.9
    held = sparing.learn(log, "greedy", judged=judged, holdout=0.3, ridge=1.0)
    outside = judged.take(~held.trained_on.split.held_out(judged))
    assert 0 < outside.n_rows < 60
    assert held.trained_on.rows == 400 - held.held_out(log).n_rows + outside.n_rows
    assert sparing.evaluate(log, held, methods=["dr"]).rows == held.held_out(log).n_rows
    weighted = sparing.learn(log, "poem", judged=judged)
    assert any("60 judged answers have no logging propensity" in note for note in weighted.notes)
    np.testing.assert_array_equal(weighted.theta, sparing.learn(log, "poem").theta)
