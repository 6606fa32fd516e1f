"""One table of many arrays: read and written by name in compiled code, kept alive, and never copied by address."""

import copy
import gc
import pickle
import weakref

import numpy as np
import pytest

import sparing
from sparing.native.compile import Entry, compiled
from sparing.native.struct import Struct, StructArrays
from sparing.simulation import LinearWorld, draw_log

FIELDS = {
    "rows": (np.float64, "nd"),
    "rough": (np.float32, "n"),
    "who": (np.int64, "n"),
    "flags": (np.bool_, "2"),
    "sum": (np.float64, ""),
    "seen": (np.int64, ""),
}


class Small(Struct, fields=FIELDS):
    """A table to test with."""


def memory(n=3, d=2):
    made = StructArrays(FIELDS, {"n": n, "d": d})
    made.rows[:] = np.arange(n * d).reshape(n, d)
    made.rough[:], made.who[:] = 0.5, np.arange(n)[::-1]
    return made


@compiled
def walk(t, times):
    """Add up what is there, and write to every field."""
    for _ in range(times):
        for i in range(len(t.rows)):
            for j in range(t.rows.shape[1]):
                t.sum += t.rows[i, j] * t.rough[i]
            t.who[i] += 1
            t.seen += 1
        t.flags[1] = not t.flags[1]
    return t.sum


def test_compiled_code_reads_and_writes_by_name():
    made = memory()
    assert walk(Small(made.places()), 3) == made.sum == 3 * 0.5 * 15
    assert made.seen == 9
    assert made.who.tolist() == [5, 4, 3]
    assert made.flags.tolist() == [False, True]


def test_numbers_and_arrays_in_python():
    made = memory()
    made.seen, made.sum = 7, 0.25
    assert (made.seen, made.sum) == (7, 0.25)
    assert type(made.seen) is int
    with pytest.raises(AttributeError, match="in place"):
        made.rows = np.zeros((3, 2))
    with pytest.raises(AttributeError):
        _ = made.nothing


@pytest.mark.parametrize(
    ("name", "wrong"),
    [
        ("rows", np.zeros((3, 2), np.float32)),
        ("rows", np.zeros(3)),
        ("rows", np.zeros((2, 3)).T),
        ("who", np.zeros(3)),
        ("rough", np.zeros(6, np.float32)[::2]),
    ],
)
def test_arrays_that_are_not_as_declared_are_refused(name, wrong):
    with pytest.raises(ValueError, match=name):
        Small({**memory().places(), name: wrong})
    locked = memory()
    locked.who.flags.writeable = False
    with pytest.raises(ValueError, match="who"):
        Small(locked.places())


def test_a_table_keeps_its_arrays_alive():
    made = memory()
    table, gone = Small(made.places()), weakref.ref(made.rows)
    del made
    gc.collect()
    assert gone() is not None
    filler = [np.full((3, 2), np.nan) for _ in range(200)]  # would land in the place of freed memory
    assert walk(table, 1) == 7.5
    assert len(filler) == 200
    del table
    gc.collect()
    assert gone() is None


def test_a_table_is_never_copied():
    table = Small(memory().places())
    for take in (copy.copy, copy.deepcopy, pickle.dumps):
        with pytest.raises(TypeError, match="addresses"):
            take(table)


def test_memory_is_copied_whole_and_apart():
    made = memory()
    made.seen = 4
    for twin in (made.copy(), copy.deepcopy(made), pickle.loads(pickle.dumps(made))):
        walk(Small(twin.places()), 1)
        assert (made.seen, twin.seen) == (4, 7)
        assert made.who.tolist() == [2, 1, 0]
    larger = StructArrays(FIELDS, {"n": 5, "d": 2})
    larger.take(made)
    assert larger.rows.tolist() == [*made.rows.tolist(), [0, 0], [0, 0]]
    assert larger.seen == 4


def test_an_entry_compiles_at_its_first_call_and_does_not_look_again():
    from numba.core import types

    @compiled
    def twice(t, x):
        return t.sum + 2 * x

    entry = Entry(twice, Small.type, types.float64)
    assert not twice.signatures
    table = Small(memory().places())
    assert [entry.call(table, x) for x in (1.0, 2.5)] == [2.0, 5.0]
    assert len(twice.signatures) == 1
    with pytest.raises(TypeError):
        entry.call(table, "x")
    with pytest.raises(TypeError):
        entry.call(object(), 1.0)


@pytest.mark.parametrize("name", ["linucb", "certified", "confident"])
def test_learners_outlive_their_models_growth_and_collections(name, monkeypatch):
    """Copies by every way, growth of the slots, and a collection at every turn leave the answers as they are."""
    monkeypatch.setattr("sparing.online.confidence_sets.PREALLOCATE_LIMIT", 0)
    world = LinearWorld(n_actions=150, n_features=3, noise=0.5, seed=0)
    log = draw_log(world, rows=300, never=range(30, 150), seed=0)
    contexts = np.random.default_rng(0).random((120, 3))

    def live(learner):
        made = []
        for number, x in enumerate(contexts):
            decision = learner.decide(x, eligible=[number % 150, (7 * number) % 150])
            made.append(decision[:7])
            if decision.needs_reward:
                learner.update(decision, float(x.sum()))
        return made, learner.digest()

    def start():
        return getattr(sparing, name)(log, noise=0.5, seed=1)

    expected = live(start())
    for how in (
        copy.copy,
        copy.deepcopy,
        lambda one: pickle.loads(pickle.dumps(one)),
        lambda one: one.copy(),
    ):
        twin = how(start())
        gc.collect()
        assert live(twin) == expected
    threshold = gc.get_threshold()
    gc.set_threshold(20)
    try:
        assert live(start()) == expected
    finally:
        gc.set_threshold(*threshold)


def test_machine_code_is_tied_to_the_modules_that_kernels_import(tmp_path):
    """A function or constant of another package is built into a kernel: its file's text must count."""
    from sparing.native import compile

    engine = compile.PACKAGE / "online" / "engine"
    imported = {
        path.relative_to(compile.PACKAGE).as_posix()
        for file in engine.glob("*.py")
        for path in compile._imports(file.read_text(encoding="utf-8"))
    }
    elsewhere = {name for name in imported if not name.startswith(("online/engine/", "native/"))}
    assert elsewhere == {"hashing.py", "log/limits.py", "model/confidence.py"}
    before = compile.text_hash(tmp_path)
    (tmp_path / "kernel.py").write_text("from sparing import hashing\n")
    compile.text_hash.cache_clear()
    with_hashing = compile.text_hash(tmp_path)
    (tmp_path / "kernel.py").write_text("from sparing import hashing \n")
    compile.text_hash.cache_clear()
    assert len({before, with_hashing, compile.text_hash(tmp_path)}) == 3


def test_an_index_of_another_release_is_compiled_anew(tmp_path, monkeypatch):
    """Its machine code names types by modules that are gone."""
    monkeypatch.setattr("numba.core.config.CACHE_DIR", str(tmp_path))

    def twice(number):
        return 2 * number

    kept = compiled(twice)
    assert kept(2) == 4
    index = next(tmp_path.glob("**/*.nbi"))
    broken = pickle.dumps((None, {})).replace(b"N", b"csparing.native.gone\nType\n", 1)
    index.write_bytes(pickle.dumps(__import__("numba").__version__) + broken)
    assert compiled(twice)(3) == 6
