"""Columns of text: hashed words and characters, projected to directions of the log's texts."""

import itertools
import json
import pickle
import re
import time

import numpy as np
import pandas as pd
import pytest

import sparing
from sparing.errors import DecisionError, FileError, LogError, SettingError
from sparing.log import passes, sketches
from sparing.log.features import grams, texts
from sparing.log.features.fitting import ColumnProfile
from sparing.log.features.specs import ColumnSpec
from sparing.log.sketches import TextSample

TOPICS = (
    ["sort", "a", "list", "of", "numbers", "in", "python", "with", "one", "function"],
    ["which", "river", "flows", "through", "the", "old", "city", "of", "rome", "and", "why"],
    ["solve", "the", "equation", "for", "x", "then", "add", "seven", "to", "both", "sides"],
)


def prompts(n, seed=0):
    """Texts of three topics, and the topic of each."""
    rng = np.random.default_rng(seed)
    topics = rng.integers(3, size=n)
    return [" ".join(rng.choice(TOPICS[topic], rng.integers(6, 15))) for topic in topics], topics


def table(n=400):
    rng = np.random.default_rng(1)
    found, topics = prompts(n)
    actions = rng.integers(2, size=n)
    rewards = (rng.random(n) < np.where(actions == (topics == 0), 0.8, 0.2)).astype(float)
    return pd.DataFrame({"prompt": found, "action": np.array(["a", "b"])[actions], "reward": rewards})


@pytest.fixture(scope="module")
def frame():
    return table()


@pytest.fixture(scope="module")
def log(frame):
    return sparing.read_log(frame)


@pytest.fixture(scope="module")
def column(log):
    return log.encoder.columns[0]


MASK = 2**64 - 1


def hashed(units, state=0):
    """`fold_word` over whole numbers, in plain Python."""
    for unit in units:
        state = ((state ^ unit) * 0x9E3779B97F4A7C15) & MASK
        state ^= state >> 32
    return state


def place(state, characters):
    """The place that `mix64` of a hash gives, and its sign."""
    for shift, factor in ((30, 0xBF58476D1CE4E5B9), (27, 0x94D049BB133111EB)):
        state = ((state ^ (state >> shift)) * factor) & MASK
    state ^= state >> 31
    top = state >> (63 - grams.BITS)
    return (top >> 1) + characters * 2**grams.BITS, 1 - 2 * (top & 1)


def reference(column, text):
    """The directions of an ASCII text, in plain Python and double precision."""
    words = re.findall(r"\w+|[^\w\s]", text.lower())
    states = [hashed(map(ord, word)) for word in words]
    found = [place(state, 0) for state in states]
    found += [place(hashed([two], one), 0) for one, two in itertools.pairwise(states)]
    for word in words:
        if re.match(r"\w", word):
            marked = [2, *map(ord, word), 3]
            for size in (3, 4):
                found += [place(hashed(marked[i : i + size]), 1) for i in range(len(marked) + 1 - size)]
    counts = {}
    for where, sign in found:
        counts[where] = counts.get(where, 0) + sign
    places, idf, axes = column._decoded
    axes = axes.reshape(-1, column.keep).astype(float)
    rows = {int(where): row for row, where in enumerate(places)}
    out = -np.array(column.mean)
    for group in (0, 1):
        sizes = {
            rows[where]: np.sign(count) * (1 + np.log(abs(count))) * float(idf[rows[where]])
            for where, count in counts.items()
            if where in rows and count and where // 2**grams.BITS == group
        }
        norm = np.sqrt(sum(size**2 for size in sizes.values()))
        for row, size in sizes.items():
            out = out + size / norm * axes[row]
    return out


def test_the_kernel_computes_the_definition(log, column):
    for text in (
        "Sort the LIST of numbers, then sort (it) again!",
        "rome",
        "unheard-of words: x_1 & 7 7 7",
        "?",
    ):
        x = log.encoder.encode({"prompt": text})[1:]
        assert np.allclose(x[:-1], reference(column, text), rtol=0, atol=1e-12)
        length = (np.log1p(len(text)) - column.length_mean) / column.length_scale
        low, high = (
            (end - column.length_mean) / column.length_scale
            for end in (column.length_low, column.length_high)
        )
        assert x[-1] == pytest.approx(np.clip(length, low, high))


def test_directions_are_those_of_a_dense_decomposition(frame, column):
    found = [texts.normalized(text) for text in frame["prompt"]]
    stops, places, counts = grams.count_rows(*texts.code_points(found), texts.character_classes(), 2)
    chosen, idf, axes = column._decoded
    x = np.zeros((len(found), len(chosen)))
    rows, known = np.repeat(np.arange(len(found)), np.diff(stops, prepend=0)), np.isin(places, chosen)
    x[rows[known], np.searchsorted(chosen, places[known])] = counts[known]
    x = np.sign(x) * np.where(x == 0, 0, 1 + np.log(np.maximum(np.abs(x), 1))) * idf
    for group in (chosen < 2**grams.BITS, chosen >= 2**grams.BITS):
        x[:, group] /= np.linalg.norm(x[:, group], axis=1, keepdims=True)
    sizes, vectors = np.linalg.svd(x - x.mean(axis=0), full_matrices=False)[1:]
    assert column.share == pytest.approx((sizes[: column.keep] ** 2).sum() / (sizes**2).sum(), abs=1e-3)
    first = axes.reshape(-1, column.keep)[:, :5].astype(float)
    first /= np.linalg.norm(first, axis=0)
    assert np.abs((first * vectors[:5].T).sum(axis=0)).min() > 0.999


def test_features_are_standardised_and_tell_topics_apart(frame, log):
    x = log.contexts[:, 1:]
    assert np.abs(x.mean(axis=0)).max() < 1e-9
    spread = x.std(axis=0)
    assert np.abs(spread[[0, -1]] - 1).max() < 1e-3
    assert (np.diff(spread[:-1]) < 1e-3).all()
    _, topics = prompts(len(frame))
    between = np.array([x[topics == topic, :2].mean(axis=0) for topic in range(3)])
    gaps = np.linalg.norm(between[[0, 0, 1]] - between[[1, 2, 2]], axis=1)
    assert gaps.min() > 1.5
    policy = sparing.learn(log, "greedy")
    live, topics = prompts(300, seed=5)
    chosen = policy.actions([{"prompt": text} for text in live], np.random.default_rng(0))
    assert ((np.array(chosen) == "b") == (topics == 0)).mean() > 0.9


def test_one_row_and_many_have_the_same_bits(frame, log):
    rows = np.array([log.encoder.encode({"prompt": text}) for text in frame["prompt"]])
    assert np.array_equal(rows, log.contexts)
    backwards = log.encoder.encode_table(frame[["prompt"]][::-1])
    assert np.array_equal(backwards[::-1], log.contexts)


def test_files_scans_and_parts_give_the_same_encoder(frame, log, tmp_path, monkeypatch):
    path = tmp_path / "log.csv"
    frame.to_csv(path, index=False)
    assert sparing.read_log(path).encoder.digest == log.encoder.digest
    monkeypatch.setattr(passes, "BATCH_ROWS", 64)
    monkeypatch.setattr(passes, "CHUNK_ROWS", 64)
    frame.to_parquet(tmp_path / "log.parquet", row_group_size=50)
    scanned = sparing.scan(tmp_path / "log.parquet", workers=2)
    assert scanned.encoder.digest == log.encoder.digest
    assert np.array_equal(sparing.read_log(tmp_path / "log.parquet").contexts, log.contexts)


def test_samples_of_parts_are_the_sample_of_the_whole(monkeypatch):
    monkeypatch.setattr(sketches, "TEXT_ROWS", 40)
    rng = np.random.default_rng(0)
    keys = rng.permutation(1000).astype(np.uint64)
    found = tuple("x" * int(size) for size in rng.integers(1, 50, 1000))
    for most in (500, 10_000):  # characters, then rows are the limit
        monkeypatch.setattr(sketches, "TEXT_CHARACTERS", most)
        whole = TextSample() + TextSample.of(keys, found)
        order = np.argsort(keys)
        sizes = np.cumsum([len(found[place]) for place in order])
        expected = order[: min(40, int((sizes < most).sum()) + 1)]
        assert whole.texts == tuple(found[place] for place in expected)
        for cuts in ([0, 1000], [0, 1, 700, 1000], [0, 333, 334, 335, 1000]):
            parts = []
            for start, stop in itertools.pairwise(cuts):
                part = TextSample()
                for row in range(start, stop):
                    near = part.near(keys[row : row + 1])
                    part += TextSample.of(
                        keys[row : row + 1][near], found[row : row + 1] if len(near) else ()
                    )
                parts.append(part)
            total = parts[-1]
            for part in parts[:-1][::-1]:
                total = part + total
            assert total.texts == whole.texts


def test_contributions_of_a_long_text_take_few_times_as_long_as_its_features(column):
    """They are asked for over HTTP, by texts of 64 KiB; one step in Python for each part of a word took a hundred times as long."""

    def least(work):
        times = []
        for _ in range(5):
            began = time.process_time()
            work()
            times.append(time.process_time() - began)
        return min(times)

    text = " ".join(np.random.default_rng(0).choice([*TOPICS[0], *TOPICS[1], *TOPICS[2]], 10_000))
    weights = np.ones(len(column.names))
    features = least(lambda: column._coordinates([text]))
    assert least(lambda: column.contributions(text, weights)) < 40 * features


def test_contributions_of_words_sum_to_the_whole(log, column):
    rng = np.random.default_rng(0)
    for text in ("Sort the list, then SORT it", "unknown words only?", "rome rome", " "):
        weights = rng.standard_normal(len(column.names))
        words, rest = column.contributions(text, weights)
        x = log.encoder.encode({"prompt": text})[1:]
        assert sum(words.values()) + rest == pytest.approx(x @ weights, abs=1e-12)
        assert list(words) == list(dict.fromkeys(re.findall(r"\w+|[^\w\s]", text.lower())))
        # Without the means and the length, what is left is that of the words alone.
        weights[-1] = 0.0
        words, rest = column.contributions(text, weights)
        assert rest == pytest.approx(-np.dot(weights[:-1], column.mean), abs=1e-12)
    first = np.eye(len(column.names))[0]
    words, _ = column.contributions("python function zzzz", first)
    assert abs(words["python"]) > 5 * abs(words["zzzz"])
    with pytest.raises(SettingError, match="weights of shape"):
        column.contributions("x", [1.0])


@pytest.mark.parametrize(
    ("given", "same"),
    [
        ("\ufb01nd \uff21\uff22", "find ab"),  # a ligature and full-width letters
        ("E\u0301COLE STRASSE", "\u00e9cole stra\u00dfe"),
        ("a\u00a0b\tc\x00d\u200be", "a b c d e"),  # spaces, control and format characters
        (7, "7"),
        (7.5, "7.5"),
        (True, "true"),
    ],
)
def test_texts_that_count_as_equal(log, given, same):
    x, y = (log.encoder.encode({"prompt": text})[1:-1] for text in (given, same))
    assert np.array_equal(x, y)


@pytest.mark.parametrize(
    "text",
    [
        "🙂🙃 👩‍👩‍👧",
        " ",
        "\ud800 lone",
        "日本語のテキスト",
        "हिन्दी में",
        "x" * 2**20,
        "a b " * 2**18,
        "\U0010ffff",
    ],
)
def test_any_text_has_finite_features(log, column, text):
    x = log.encoder.encode({"prompt": text})
    assert np.isfinite(x).all()
    words, rest = column.contributions(text, np.ones(len(column.names)))
    assert sum(words.values()) + rest == pytest.approx(x[1:].sum(), abs=1e-9)


def test_long_texts_count_up_to_a_limit(log):
    start = "sort a list of numbers " * 2000
    assert len(start) > texts.MOST_CHARACTERS
    x, y = (log.encoder.encode({"prompt": start + more}) for more in ("", "river " * 50_000))
    assert np.array_equal(x, y)


def test_words_of_other_scripts(column):
    def words(text):
        return list(column.contributions(text, np.ones(len(column.names)))[0])

    assert words("我喜欢Python3。") == ["我", "喜", "欢", "python3", "。"]
    assert words("हिन्दी में") == ["हिन्दी", "में"]  # marks belong to words
    assert words("한국어 좋아요!") == ["한국어", "좋아요", "!"]
    assert words("ok🙂🙂") == ["ok", "🙂"]


def test_missing_texts_have_a_feature_of_their_own():
    frame = table()
    frame.loc[::7, "prompt"] = None
    frame.loc[1::7, "prompt"] = ""
    log = sparing.read_log(frame)
    column = log.encoder.columns[0]
    assert column.names[-1] == "prompt is missing"
    there = frame["prompt"].notna() & (frame["prompt"] != "")
    assert np.array_equal(log.contexts[:, -1], ~there)
    assert not log.contexts[~there.to_numpy(), 1:-1].any()
    for gap in (None, "", float("nan"), pd.NA):
        assert np.array_equal(log.encoder.encode({"prompt": gap}), log.contexts[0])
    assert column.contributions(None, np.arange(float(len(column.names)))) == ({}, len(column.names) - 1.0)
    plain = sparing.read_log(table())
    assert not plain.encoder.encode({"prompt": None})[1:].any()


def test_what_is_no_text_is_refused(log):
    with pytest.raises(DecisionError, match="expected a text"):
        log.encoder.encode({"prompt": ["a", "list"]})
    lists = {"prompt": [["a"], ["b"]], "action": ["a", "b"], "reward": [0.0, 1.0]}
    with pytest.raises(LogError, match="prompt holds"):
        sparing.read_log(lists, features=sparing.features(prompt="text"))
    with pytest.raises(LogError, match="prompt at row 0 is"):
        sparing.read_log(lists, features=log.encoder)


def test_auto_takes_long_strings_that_differ():
    rng = np.random.default_rng(0)
    n, letters = 300, np.array(list("abcdefghij"))
    columns = {
        "prompt": prompts(n)[0],
        "chinese": ["".join(rng.choice(list("我喜欢这本书很好看的"), 12)) for _ in range(n)],
        "key": ["".join(rng.choice(letters, 30)) for _ in range(n)],
        "title": rng.choice(["one of a few long titles here", "another of a few long titles"], n),
        "name": [f"{a}{i} {b}" for i, (a, b) in enumerate(rng.choice(letters, (n, 2)))],
    }
    log = sparing.read_log({**columns, "action": rng.choice(["a", "b"], n), "reward": rng.random(n)})
    kinds = {column.column: column.kind for column in log.encoder.columns}
    assert kinds == {"prompt": "text", "chinese": "text", "title": "category"}
    assert set(dict(log.encoder.left_out)) == {"key", "name"}
    assert re.search(
        r"prompt: text, 32 directions of its words kept \(\d+% of their variance\)", log.encoder.described()
    )


def test_declared_texts(frame):
    chosen = sparing.features(prompt=sparing.text(keep=5, ngrams=1))
    log = sparing.read_log(frame, features=chosen)
    assert log.n_features == 1 + 5 + 1
    same = sparing.features({"prompt": {"kind": "text", "keep": 5, "ngrams": 1}})
    assert sparing.read_log(frame, features=same).encoder.digest == log.encoder.digest
    for wrong in ({"keep": 0}, {"keep": 1000}, {"ngrams": 4}, {"keep": "five"}):
        with pytest.raises(SettingError, match="must be a"):
            sparing.features({"prompt": {"kind": "text", **wrong}})
    few = {"prompt": ["one", "two", "two"], "action": ["a", "b", "a"], "reward": [0.0, 1.0, 1.0]}
    column = sparing.read_log(few, features=sparing.features(prompt="text")).encoder.columns[0]
    assert 1 <= column.keep <= 2
    same_everywhere = {**few, "prompt": ["one", "one", "one"]}
    log = sparing.read_log(same_everywhere, features=sparing.features(prompt="text"))
    assert dict(log.encoder.left_out) == {"prompt": "left out, the same in every row"}
    digits = sparing.read_log({**few, "prompt": [1, 2, 2]}, features=sparing.features(prompt="text"))
    words = sparing.read_log({**few, "prompt": ["1", "2", "2"]}, features=sparing.features(prompt="text"))
    assert np.array_equal(digits.contexts, words.contexts)


def test_a_text_without_a_known_word_is_unseen(log, column):
    for text, unseen in (("Sort it", False), ("bonjour mes amis", True), ("?! 🙂", True), (None, False)):
        assert log.encoder.unseen({"prompt": text}) == (("prompt",) if unseen else ())
    learner = sparing.confident(log, reward_range=(0, 1))
    assert learner.decide({"prompt": "bonjour"}).unseen == ("prompt",)


def test_items_have_texts(frame):
    items = {
        "action": ["a", "b", "c"],
        "about": ["a cheap and fast model", "careful but slow model", "a fast model again"],
    }
    log = sparing.read_log(frame, items=items)
    assert log.items.encoder.columns[0].kind == "text"
    assert log.items.features.shape[0] == 3
    features = log.items.features
    assert np.linalg.norm(features[0] - features[2]) < np.linalg.norm(features[1] - features[2])


def test_the_encoder_is_saved_as_json(frame, log, tmp_path):
    path = tmp_path / "features.json"
    sparing.write_features(log.encoder, path)
    loaded = sparing.read_features(path)
    assert loaded.digest == log.encoder.digest
    assert np.array_equal(loaded.encode_table(frame[["prompt"]]), log.contexts)
    again = pickle.loads(pickle.dumps(log.encoder))
    assert np.array_equal(again.encode_table(frame[["prompt"]]), log.contexts)
    # 8,192 grams at most: a place, a weight and 32 half-precision numbers each, in base64.
    assert path.stat().st_size < 8192 * (4 + 4 + 32 * 2) * 4 / 3 + 4096
    saved = json.loads(path.read_text())
    assert saved["version"] == 2
    for damage in ({"axes": "AAAA"}, {"keep": 31}, {"idf": "!"}, {"length_scale": 0.0}, {"ngrams": 9}):
        broken = {**saved, "columns": [{**saved["columns"][0], **damage}]}
        with pytest.raises(FileError, match="damaged features"):
            sparing.Encoder.from_header(broken)


def test_long_cells_are_counted_in_bounded_memory(monkeypatch):
    import pyarrow as pa

    from sparing.log.features import fitting

    monkeypatch.setattr(fitting, "MOST_COUNTED_CHARACTERS", 1000)
    profile = ColumnProfile("prompt", ColumnSpec("auto"))
    found, _ = prompts(300)
    for start in range(0, 300, 100):
        profile.add(pa.array(found[start : start + 100]), first_row=start)
    assert profile.uncounted
    assert sum(map(len, profile.counts)) < 1200
    assert profile.fitted().kind == "text"
