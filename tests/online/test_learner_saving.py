"""Saved learners: whole and ours, or refused with a FileError; nothing is ever unpickled."""

import io
import json
import zipfile

import numpy as np
import pytest

import sparing
from each import for_each
from reference.cases import make_log, make_rounds, parameters, run
from reference.factories import build
from sparing import archive
from sparing.errors import FileError, LogError
from sparing.online.files import KIND, VERSION

THETA = parameters(1)
LOG = make_log(1, THETA, rows=60)


@pytest.fixture
def path(tmp_path):
    learner = build("confident spot checks", LOG)
    run(learner, make_rounds(1, THETA, 30))
    learner.decide(LOG.contexts[0])
    learner.save(tmp_path / "learner.sparing")
    return tmp_path / "learner.sparing"


def rewritten(path, change, *, kind=KIND, version=VERSION):
    """The same file with its header and arrays changed, and a checksum that fits again."""
    header, arrays = archive.read(path, KIND, VERSION)
    change(header, arrays)
    archive.write(path, kind, version, header, arrays)
    return path


def test_a_truncated_file_is_refused(path):
    whole = path.read_bytes()
    for share in (0.0, 0.1, 0.5, 0.9, 0.999):
        path.write_bytes(whole[: int(share * len(whole))])
        with pytest.raises(FileError):
            sparing.load(path)
    path.write_bytes(whole)
    assert sparing.load(path).rounds == 31


def test_every_flipped_byte_is_refused_or_harmless(path):
    """A byte of the zip's own bookkeeping may change without effect; no other learner may come of it."""
    whole = path.read_bytes()
    intact = sparing.load(path)
    refused = 0
    for position in np.random.default_rng(0).integers(0, len(whole), 120):
        path.write_bytes(whole[:position] + bytes([whole[position] ^ 0x55]) + whole[position + 1 :])
        try:
            learner = sparing.load(path)
        except FileError:
            refused += 1
        else:
            assert np.array_equal(learner.sets.gram, intact.sets.gram)
            assert (learner.key, learner.digest()) == (intact.key, intact.digest())
    assert refused > 60


def test_an_edited_entry_is_refused(path):
    with zipfile.ZipFile(path) as old:
        entries = {name: old.read(name) for name in old.namelist()}
    header = json.loads(entries["header.json"])
    header["calls"] += 1
    entries["header.json"] = json.dumps(header).encode()
    with zipfile.ZipFile(path, "w") as new:
        for name, content in entries.items():
            new.writestr(name, content)
    with pytest.raises(FileError, match="checksum"):
        sparing.load(path)


def test_a_newer_file_is_refused(path):
    with pytest.raises(FileError, match="version"):
        sparing.load(rewritten(path, lambda header, arrays: None, version=VERSION + 1))


def test_a_file_of_another_kind_is_refused(path, tmp_path):
    with pytest.raises(FileError, match="expected a sparing learner"):
        sparing.load(rewritten(path, lambda header, arrays: None, kind="sparing log"))
    for content in (b"", b"not a zip", b"PK\x03\x04" + b"\0" * 50):
        path.write_bytes(content)
        with pytest.raises(FileError):
            sparing.load(path)
    np.savez(tmp_path / "arrays.npz", gram=np.eye(2))
    with pytest.raises(FileError, match="not a sparing file"):
        sparing.load(tmp_path / "arrays.npz")
    with pytest.raises(FileError, match="does not exist"):
        sparing.load(tmp_path / "nowhere")


def drop(name):
    return lambda header, arrays: arrays.pop(name)


def put(name, array):
    return lambda header, arrays: arrays.update({name: array})


def head(**values):
    return lambda header, arrays: header.update(values)


@for_each(
    "change",
    [
        drop("sets/response"),
        drop("sets/gram"),
        drop("priority"),
        drop("open"),
        put("sets/inverse", np.tile(np.eye(3), (6, 1, 1))),
        put("sets/inverse", np.full((6, 3, 3), np.nan)),
        put("sets/theta", np.zeros((5, 3))),
        put("sets/theta", np.zeros((6, 3), dtype=np.float32)),
        put("sets/log_det", np.zeros(5)),
        put("priority", np.zeros(6, dtype=np.int64)),
        put("priority", np.arange(5)),
        put("open", np.zeros((7, 3))),
        head(action_names=[0, 1]),
        head(rules=[["unheard of", {}]]),
        head(explore="somehow"),
        head(key=-1),
        head(spot_check=1.0),
        head(spot_check=1e9),
        head(sets={}),
        lambda header, arrays: header.pop("assumptions"),
    ],
)
def test_parts_that_do_not_fit_together_are_refused(path, change):
    with pytest.raises(FileError):
        sparing.load(rewritten(path, change))


class Trap:
    """Unpickling one would be noticed."""

    sprung = False

    def __reduce__(self):
        return (setattr, (Trap, "sprung", True))


def test_nothing_is_unpickled(path):
    header, _ = archive.read(path, KIND, VERSION)
    buffer = io.BytesIO()
    np.save(buffer, np.array([Trap()], dtype=object), allow_pickle=True)
    entries = {"header.json": json.dumps({"kind": KIND, "version": VERSION, **header}).encode()}
    entries["sets/gram.npy"] = buffer.getvalue()
    with zipfile.ZipFile(path, "w") as new:
        for name, content in {**entries, "sha256": archive._checksum(entries).encode()}.items():
            new.writestr(name, content)
    with pytest.raises(FileError):
        sparing.load(path)
    assert not Trap.sprung
    np.load(io.BytesIO(buffer.getvalue()), allow_pickle=True)
    assert Trap.sprung


def test_a_learner_is_arrays_and_json_alone(path):
    with zipfile.ZipFile(path) as archived:
        for name in archived.namelist():
            if name.endswith(".npy"):
                assert np.load(io.BytesIO(archived.read(name)), allow_pickle=False).dtype != object
            else:
                assert name in ("header.json", "sha256")


def test_odd_labels_come_back_as_they_were(tmp_path):
    labels = ["", "a/b", "ü\n", "1", 1, -3, 2.5, True + 1, ("x", 2, ("y", 0.5)), 10**20, float("inf")]
    learner = sparing.moful(actions=labels, n_features=2)
    decisions = [learner.decide([0.1 * i, 1.0]) for i in range(20)]
    learner.save(tmp_path / "a")
    twin = sparing.load(tmp_path / "a")
    assert twin.action_names == tuple(labels)
    assert list(map(type, twin.action_names)) == list(map(type, labels))
    for decision in decisions:
        twin.update(decision, 1.0)
    assert twin.decide([1.0, 1.0], eligible=[("x", 2, ("y", 0.5))]).action == ("x", 2, ("y", 0.5))


def test_a_label_that_cannot_be_written_is_refused_and_leaves_no_file(tmp_path):
    learner = sparing.moful(actions=["a", frozenset("b")], n_features=2)
    with pytest.raises(LogError, match="cannot be written"):
        learner.save(tmp_path / "a")
    assert list(tmp_path.iterdir()) == []


def test_numpy_settings_can_be_saved(tmp_path):
    single = np.float32(0.5)
    learners = [
        sparing.linucb(n_actions=2, n_features=2, alpha=single),
        sparing.lints(n_actions=2, n_features=2, scale=np.int64(2)),
        sparing.certified(LOG, tolerance=single, noise=single, delta=np.float32(0.1), ridge=np.int64(1)),
        sparing.confident(
            LOG, tolerance=single, confidence=single, misfit=single, spot_check=np.float32(0.1)
        ),
        sparing.moful(n_actions=2, n_features=2, reward_range=np.array([0, 1]), seed=np.int64(3)),
    ]
    for learner in learners:
        learner.save(tmp_path / "a")
        assert repr(sparing.load(tmp_path / "a")) == repr(learner)


def test_saving_over_a_file_replaces_it_whole(path):
    learner = sparing.load(path)
    learner.decide(LOG.contexts[1])
    learner.save(path)
    assert sparing.load(path).rounds == learner.rounds
    assert [entry.name for entry in path.parent.iterdir()] == [path.name]


def test_a_learner_of_a_huge_reward_is_loaded(tmp_path):
    """Whatever `update` accepts can be saved: its squared residual is larger than any reward."""
    learner = sparing.confident(LOG, tolerance=0.0, spot_check=0.9)
    decision = next(d for d in map(learner.decide, LOG.contexts) if d.needs_reward)
    learner.update(decision, 1e49)
    learner.save(tmp_path / "huge.sparing")
    assert sparing.load(tmp_path / "huge.sparing").digest() == learner.digest()
