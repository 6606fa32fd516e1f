"""A plan from a log that is walked: the numbers of one in memory."""

import numpy as np
import pytest

import sparing
from sparing.errors import SettingError
from sparing.log import Log, passes
from sparing.planning import plan as planning
from sparing.planning.plan import plan


def made(n=1500):
    rng = np.random.default_rng(0)
    x, actions = np.round(rng.normal(size=(n, 3)) * 64) / 64, rng.integers(0, 3, n)
    r = np.einsum("nd,nd->n", x, rng.normal(size=(3, 3))[actions]) + rng.normal(size=n)
    return Log.from_arrays(x, actions, np.round(r * 64) / 64, action_names=[0, 1, 2, 3])


def scanned(log, folder, **how):
    sparing.write_log(log, folder / "log.parquet")
    return sparing.scan(folder / "log.parquet", engine="local", **how)


def same(one, other):
    assert str(one) == str(other)
    for option, twin in zip(one.options, other.options, strict=True):
        assert np.array_equal(option.calls, twin.calls)
        assert np.array_equal(option.regret, twin.regret)


@pytest.mark.parametrize("rows", [256, 4096])
@pytest.mark.parametrize("most", [1000, 20_000])
def test_a_plan_of_a_scan_is_that_of_memory(tmp_path, monkeypatch, rows, most):
    """Of one block and of several, with all contexts and with a part of them."""
    monkeypatch.setattr(passes, "BATCH_ROWS", rows)
    monkeypatch.setattr(passes, "CHUNK_ROWS", rows)
    monkeypatch.setattr(planning, "MOST_CONTEXTS", most)
    log, how = made(), {"horizon": 60, "worlds": 20, "workers": 1, "seed": 5}
    same(plan(log, **how), plan(scanned(log, tmp_path, workers=2), **how))


def test_contexts_of_several_blocks_are_rows_of_the_log(tmp_path, monkeypatch):
    monkeypatch.setattr(passes, "BATCH_ROWS", 256)
    monkeypatch.setattr(planning, "MOST_CONTEXTS", 400)
    log = made()
    one, other = (planning._pool(each, 7) for each in (log, scanned(log, tmp_path)))
    assert np.array_equal(one, other)
    assert one.shape == (400, 3)
    assert set(map(tuple, one)) <= set(map(tuple, log.contexts))
    assert not np.array_equal(one, planning._pool(log, 8))


def test_learners_that_need_rows_cannot_be_planned_from_a_scan(tmp_path):
    scan = scanned(made(300), tmp_path)
    with pytest.raises(SettingError, match=r"eps_moful fits points to the log's rows.*log.sample\(200_000\)"):
        plan(scan, learners=["confident", "eps_moful"])
