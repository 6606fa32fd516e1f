"""Exports: what reads back is what was decided, with both probabilities, and support only where it is known."""

import asyncio
import csv
import json
from types import SimpleNamespace

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import sparing
from service import raw_columns
from service.building import NAME, contexts, decide, live, ran, reward, trial
from sparing.errors import LogError
from sparing.service import erasure, events
from sparing.service import export as exports
from sparing.service.errors import ServiceError
from sparing.service.export import export
from sparing.service.http import decisions as records
from sparing.service.messages import DecideRequest, Options
from sparing.service.transactions import ChangeSettings, Decide


async def stored(writer):
    return [
        one
        for one in await writer.store.record(1, "d.seq > 0")
        if one.closed and one.closed.value is not None
    ]


@pytest.fixture(scope="module")
def shop(tmp_path_factory):
    """A store with decisions in raw columns, some of them among some actions only; and what it holds."""
    folder = tmp_path_factory.mktemp("shop")
    log = sparing.read_log(raw_columns.write(folder / "log.csv"))

    async def run():
        options = Options(explore=0.5, holdout=0.2, check=0.2)
        async with trial(folder / "store", "economical", options, log=log, call_cost=0.001) as writer:
            for number, row in enumerate(raw_columns.rows(3, 40)):
                eligible = ["red", "blue"] if number % 2 == 0 else None
                asked = DecideRequest(context=row, eligible=eligible, context_id=f"c{number % 7}")
                answer = await writer.submit(Decide(NAME, asked, events.new_id()))
                if answer.needs_reward and number % 5:
                    await reward(writer, answer, float(number))
            return await stored(writer)

    return folder / "store", log, ran(run())


def columns_of(path):
    """The columns of an exported file by name."""
    if path.suffix == ".parquet":
        return pq.read_table(path).to_pydict()
    if path.suffix == ".arrow":
        return pa.ipc.open_file(path).read_all().to_pydict()
    rows = list(csv.DictReader(path.read_text().splitlines()))
    return {name: [row[name] for row in rows] for name in rows[0]}


@pytest.mark.parametrize("form", exports.FORMATS)
def test_every_format_carries_both_probabilities_and_the_extra_columns(shop, tmp_path, monkeypatch, form):
    folder, first, rows = shop
    monkeypatch.setattr("sparing.log.passes.BATCH_ROWS", 7)
    done = export(folder, NAME, form, tmp_path / f"export{exports.ENDINGS[form]}")
    assert done.rows == len(rows) > 0
    log = sparing.read_log(done.path)
    decisions = [one.decision for one in rows]
    np.testing.assert_array_equal(log.rewards, [one.closed.value for one in rows])
    labels = [first.action_names[one.action] for one in decisions]
    assert [log.action_names[action] for action in log.actions] == labels
    encoder = first.encoder.with_unseen()  # as the learner has it
    expected = np.array([encoder.encode(events.unpack_context(one.context)) for one in decisions])
    np.testing.assert_allclose(log.contexts, expected, rtol=1e-15)
    np.testing.assert_array_equal(log.propensities, [one.play_probability for one in decisions])
    extra = columns_of(done.path)
    assert list(map(float, extra["call_probability"])) == [one.call_probability for one in decisions]
    assert extra["reason"] == [one.reason for one in decisions]
    assert extra["arm"] == [one.arm for one in decisions]
    assert extra["decision_id"] == [events.id_text(one.decision_id) for one in decisions]
    assert extra["time"] == [events.time_text(one.ts) for one in decisions]
    assert set(extra["outcome"]) == {"reward"}
    assert list(tmp_path.iterdir()) == [done.path]


@pytest.mark.parametrize("ending", ["parquet", "arrow"])
def test_a_table_reads_back_whole_without_any_option(shop, tmp_path, ending):
    folder, first, rows = shop
    done = export(folder, NAME, ending, tmp_path / f"export.{ending}")
    log = sparing.read_log(done.path)
    assert log.encoder.digest == first.encoder.with_unseen().digest
    assert log.action_names == first.action_names
    assert log.context_ids.tolist() == [json.loads(one.decision.context_id) for one in rows]
    narrow = np.array([one.decision.eligible is not None for one in rows])
    assert narrow.any()
    assert log.support.kind == "exact"
    np.testing.assert_array_equal(log.support.sizes, np.where(narrow, 2, 3))
    assert not any("support is unknown" in note for note in done.notes)
    sparing.economical(log, call_cost=0.1, horizon=100)


def test_a_single_chance_is_the_whole_support_and_an_untold_one_leaves_it_unknown(tmp_path):
    """Without exploration the other actions had no chance: to say that they were eligible would be to lie."""

    async def run():
        async with trial(tmp_path / "sure", spot_check=0.0) as writer:
            await live(writer, 1, 20)
        async with trial(tmp_path / "aside", options=Options(holdout=0.5)) as writer:
            await live(writer, 1, 20)

    ran(run())
    log = sparing.read_log(export(tmp_path / "sure", NAME, "parquet", tmp_path / "sure.parquet").path)
    assert log.support.kind == "exact"
    assert set(log.support.sizes.tolist()) == {1}
    assert set(log.propensities.tolist()) == {1.0}
    done = export(tmp_path / "aside", NAME, "parquet", tmp_path / "aside.parquet")
    assert sparing.read_log(done.path).support.kind == "unknown"
    assert any("support is unknown" in note for note in done.notes)


def test_actions_that_come_and_go_and_options_that_change(tmp_path):
    async def run():
        async with trial(tmp_path / "store", options=Options(explore=1.0), spot_check=0.0) as writer:
            model = lambda: writer.registry.get(NAME).model  # noqa: E731
            sizes = []
            for kind, body in [
                (None, None),
                (events.ACTION, {"label": "new", "features": None}),
                (events.RETIRE, {"label": model().labels[0]}),
                (events.OPTIONS, {"explore": 0.0}),
            ]:
                if kind is not None:
                    await writer.submit(ChangeSettings(NAME, kind, body, "test"))
                for x in contexts(len(sizes), 6):
                    answer = await decide(writer, x)
                    if answer.needs_reward:
                        await reward(writer, answer, 0.5)
                        count = int(model().active.sum())
                        sizes.append(count if model().options.explore else 1)
            return sizes

    sizes = ran(run())
    log = sparing.read_log(export(tmp_path / "store", NAME, "parquet", tmp_path / "out.parquet").path)
    assert log.support.sizes.tolist() == sizes
    assert {6, 7} <= set(sizes)
    assert log.action_names[-1] == "new"


def test_what_is_left_out_is_said(tmp_path):
    async def run():
        options = Options(explore=1.0, allow_mismatch=True, reward_window=10.0, default_reward=0.0)
        async with trial(tmp_path / "store", options=options) as writer:
            with pytest.raises(LogError, match="nothing to export"):
                await asyncio.to_thread(export, tmp_path / "store", NAME, "csv", tmp_path / "out.csv")
            answers = [await decide(writer, x) for x in contexts(1, 6)]
            labels = writer.registry.get(NAME).model.labels
            other = next(label for label in labels if label != answers[0].action)
            await reward(writer, answers[0], 1.0, other)
            for answer in answers[1:4]:
                await reward(writer, answer, 2.0)
            await erasure.erase(writer, NAME, decision_id=answers[1].decision_id, who="test")
            return await asyncio.to_thread(export, tmp_path / "store", NAME, "csv", tmp_path / "out.csv")

    done = ran(run())
    assert done.rows == 2
    assert any("Left out: 1 rewards are of another action" in note for note in done.notes)
    assert sparing.read_log(done.path).rewards.tolist() == [2.0, 2.0]


def test_it_runs_in_a_thread_while_the_service_goes_on(tmp_path):
    async def run():
        async with trial(tmp_path / "store", options=Options(explore=1.0)) as writer:
            await live(writer, 1, 10)
            thread = asyncio.create_task(
                asyncio.to_thread(export, tmp_path / "store", NAME, "parquet", tmp_path / "out.parquet")
            )
            await live(writer, 2, 10)
            return await thread

    assert 10 <= ran(run()).rows <= 20


def test_what_cannot_be_exported_is_refused(shop, tmp_path, monkeypatch):
    folder, _, _ = shop
    call = SimpleNamespace(path={"experiment": NAME}, query={"format": "obp"})
    with pytest.raises(ServiceError, match="`sparing convert`") as refused:
        asyncio.run(records.export(SimpleNamespace(registry=SimpleNamespace(get=str)), call))
    assert (refused.value.status, refused.value.field) == (422, "format")
    for form in ("magic", "dsjson"):
        with pytest.raises(
            LogError, match=f"format='{form}'; must be one of parquet, csv, arrow.*`sparing convert`"
        ):
            export(folder, NAME, form, tmp_path / "x.csv")
    with pytest.raises(LogError, match=r"must end in \.csv"):
        export(folder, NAME, "csv", tmp_path / "x.parquet")
    with pytest.raises(ServiceError, match="there is no experiment 'nobody'"):
        export(folder, "nobody", "csv", tmp_path / "x.csv")
    monkeypatch.setattr(exports, "MAX_ROWS", 3)
    with pytest.raises(LogError, match="an export has at most 3 rows"):
        export(folder, NAME, "csv", tmp_path / "x.csv")
    assert list(tmp_path.iterdir()) == []


def test_a_csv_file_runs_no_formula_in_a_spreadsheet(tmp_path):
    """Context ids come from whoever may ask for decisions."""
    risky = ["=HYPERLINK(0)", "+1+1", "-2+3", "@SUM(A1)", "\tx", "harmless", "a=b"]

    async def run():
        async with trial(tmp_path / "store", "warm_started") as writer:
            for number, name in enumerate(risky):
                answer = await decide(writer, contexts(number, 1)[0], context_id=name)
                await reward(writer, answer, 0.5)

    ran(run())
    export(tmp_path / "store", NAME, "csv", tmp_path / "out.csv")
    export(tmp_path / "store", NAME, "parquet", tmp_path / "out.parquet")
    with (tmp_path / "out.csv").open(newline="") as file:
        found = [row["context_id"] for row in csv.DictReader(file)]
    assert found == [f"'{name}" for name in risky[:5]] + risky[5:]
    assert columns_of(tmp_path / "out.parquet")["context_id"] == risky
