"""Live numbers far from the log's are told on the page."""

import asyncio

import pytest

import sparing
from service import raw_columns
from service.building import LOG, NAME, trial
from sparing.errors import UnitWarning
from sparing.service import events
from sparing.service.dashboard import overview
from sparing.service.messages import DecideRequest
from sparing.service.transactions import Decide


async def page(folder, log, contexts):
    async with trial(folder / "store", "confident", log=log) as writer:
        for context in contexts:
            await writer.submit(Decide(NAME, DecideRequest(context=context), events.new_id()))
        found = await overview(writer, writer.registry.get(NAME), now=events.now())
    return {one.level: one.text for one in found.look if "deviations" in one.text}


def test_numbers_far_from_the_log_need_a_look(tmp_path):
    log = sparing.read_log(raw_columns.write(tmp_path / "log.csv"))
    contexts = raw_columns.rows(3, 20)
    contexts[4]["age"], contexts[9]["age"] = -200, 1e9
    with pytest.warns(UnitWarning, match="age is more than 100 deviations"):
        said = asyncio.run(page(tmp_path, log, contexts))
    assert "good" not in said
    assert said["warning"].startswith(
        "age is 10 or more standard deviations from the log's mean in 2 of the last 20 decisions (most extreme: 1e+09)"
    )


def test_numbers_like_the_logs_are_well(tmp_path):
    log = sparing.read_log(raw_columns.write(tmp_path / "log.csv"))
    said = asyncio.run(page(tmp_path, log, raw_columns.rows(3, 20)))
    assert said == {
        "good": "No number in the last 20 decisions is 10 or more standard deviations from the log's mean; "
        "none of them have values that the log never had"
    }


@pytest.mark.parametrize("far", [0, 1, 5])
def test_values_that_the_log_never_had_are_told_with_their_share(tmp_path, far):
    """Also numbers that are clipped; few of them are not well, but no warning."""
    log = sparing.read_log(raw_columns.write(tmp_path / "log.csv"))
    contexts = raw_columns.rows(3, 120)
    for context in contexts[:far]:
        context["country"] = "JP"
    for context in contexts[:far]:
        context["age"] = 110.0

    async def run():
        async with trial(tmp_path / "store", "confident", log=log) as writer:
            for context in contexts:
                await writer.submit(Decide(NAME, DecideRequest(context=context), events.new_id()))
            found = await overview(writer, writer.registry.get(NAME), now=events.now())
            return [one for one in found.look if "the log" in one.text], writer.registry.get(NAME).unseen

    said, counted = asyncio.run(run())
    assert counted == far
    warned = [one.text for one in said if one.level == "warning" and "(4%)" in one.text]
    assert len(warned) == (2 if far == 5 else 0)
    if far == 5:
        assert any("country" in one and "5 of the last 120 decisions" in one for one in warned)
        assert any("age" in one and "clipped" in one for one in warned)
    good = [one.text for one in said if one.level == "good" and "standard deviations" in one.text]
    assert len(good) == (far < 5)
    if far < 5:
        assert ("none of them" if far == 0 else "1 of them") in good[0]


def test_numbers_that_are_taken_as_they_are_have_no_mean(tmp_path):
    assert asyncio.run(page(tmp_path, LOG, [[1e9, 0.0, 0.0]])) == {}
