"""Logs and live tables with every kind of column, for the tests of exported policies in databases, ONNX and JavaScript."""

import numpy as np
import pyarrow as pa

import sparing

START = np.datetime64("2026-03-01T00:00:00", "us")
WORDS = [
    "write",
    "a",
    "python",
    "function",
    "that",
    "sorts",
    "the",
    "list",
    "of",
    "rivers",
    "in",
    "Żółć",
    "größe",
    "ﬁne",
    "İstanbul",
    "東京",
    "naïve",
    "ΣΑΣ",
    "x2",
    "👍",
]


def columns(n, seed, *, live):
    """Raw columns (n): with `live` also values that the log never had, and numbers and moments beyond it."""
    rng = np.random.default_rng(seed)
    countries = [
        "NZ",
        "CH",
        "DE",
        "it's",
        'say "hi"',
        "back\\slash",
        *(["XX", "nz", "Ωmega"] if live else []),
    ]
    rare = [f"rare {i}" for i in range(6)]
    country = np.where(rng.random(n) < 0.03, rng.choice(rare, n), rng.choice(countries, n)).astype(object)
    country[rng.random(n) < 0.05] = None
    country[rng.random(n) < 0.01] = ""
    reach = 4.0 if live else 1.0
    seconds = rng.integers(0, int(60 * 86_400 * reach), n) - (int(30 * 86_400 * reach) if live else 0)
    micro = (seconds * 1_000_000 + rng.integers(0, 1000, n) * 1000).astype("timedelta64[us]")
    return {
        "age": pa.array(rng.normal(40, 12 * reach, n), mask=rng.random(n) < 0.05),
        "visits": pa.array(rng.integers(0, int(9 * reach), n)),
        "country": pa.array(country, pa.string()),
        "member": pa.array(rng.random(n) < 0.4, mask=rng.random(n) < 0.05),
        "seen at": pa.array(START + micro, mask=rng.random(n) < 0.05),
    }


def wide_columns(n, seed, *, live):
    """The same with hashes, lists of numbers, texts, numbers as text, and a decimal comma."""
    rng = np.random.default_rng(seed + 1)
    centre = np.linspace(-1, 1, 6)
    vectors = rng.normal(size=(n, 6)) * [3, 1, 1, 0.5, 0.2, 0.1] + centre
    texts = [" ".join(rng.choice(WORDS, rng.integers(3, 12))) for _ in range(n)]
    texts = [text.upper() if rng.random() < 0.2 else text for text in texts]
    if live:
        texts[:4] = [
            "",
            "  \u00a0\u200b tabs\tand\x00controls",
            "ẞharp ǅ ŉ \U0001f600 𠮷野家 한국어",
            "qq " * 20,
        ]
    price = [f"{int(cents // 100)},{int(cents % 100):02d} €" for cents in rng.integers(0, 500_000, n)]
    return {
        **columns(n, seed, live=live),
        "city": pa.array([f"city {i}" for i in rng.integers(0, 900, n)]),
        "embedding": pa.array(list(vectors), pa.list_(pa.float64())),
        "prompt": pa.array(texts),
        "price": pa.array(price),
    }


def log_of(make, n=2000, seed=0, **settings):
    """A log with three banners, one in four rewards depending on each column, and the features of the columns as they come."""
    table = make(n, seed, live=False)
    rng = np.random.default_rng(seed + 2)
    banner = rng.choice(["red", "it's \\ blue", "gold"], n)
    age = np.nan_to_num(table["age"].to_numpy(zero_copy_only=False), nan=40.0)
    member = np.array(table["member"].to_pylist()) == True  # noqa: E712 - an array with None
    country = np.array(table["country"].to_pylist()) == "NZ"
    mean = np.select([banner == "red", banner == "gold"], [age / 80, 0.3 + 0.4 * member], 0.3 + 0.5 * country)
    rewards = mean + 0.3 * rng.normal(size=n)
    return sparing.read_log(
        {**table, "banner": banner, "clicked": rewards}, action="banner", reward="clicked", **settings
    )


def live_table(make, n=10_000, seed=7):
    return pa.table(make(n, seed, live=True))
