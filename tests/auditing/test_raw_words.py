"""Gaps of a log of raw columns are told in those columns."""

import numpy as np

from sparing import audit, features, read_log
from sparing.auditing.segments import Bound, Segment
from sparing.log.tables import open_table


def encoder():
    n = 200
    table = {
        "age": np.arange(n) / 2,
        "device": ["phone", "desktop"] * (n // 2),
        "country": ["NZ", "AU", "UK", "NZ"] * (n // 4),
        "page": ["a", "b", None, "b"] * (n // 4),
        "new": [True, False] * (n // 2),
        "member": [True, False, None, True] * (n // 4),
        "seen_at": np.datetime64("2026-01-01", "s") + np.arange(n) * 86_400,
    }
    return features("auto").fit(open_table(table), list(table))


def words(name, low=-np.inf, high=np.inf):
    made = encoder()
    return Bound(((made.names.index(name), 1.0),), low, high).words(made)


def test_bounds_in_raw_columns():
    number = encoder().by_column["age"]
    assert words("age", low=(30 - number.mean) / number.scale) == "age > 30"
    assert words("age", -1.0, 1.0).startswith("20.88 < age ≤ 78.62")
    assert words("device=desktop", low=0.5) == "device is desktop"
    assert words("device=desktop", high=0.5) == "device is phone"  # there is no third
    assert words("device=phone", high=0.5) == "device is desktop"
    assert words("country=NZ", high=0.5) == "country is not NZ"
    assert words("page=a", high=0.5) == "page is not a"  # it may be missing
    assert words("member", low=0.0) == "member is true"
    assert words("member", high=0.0) == "member is not true"
    assert words("new", high=0.0) == "new is false"
    assert words("member is missing", low=0.5) == "member is missing"
    assert words("member is missing", high=0.5) == "member is known"
    time = encoder().by_column["seen_at"]
    day = np.datetime64("2026-02-01", "s").astype(np.int64)
    assert (
        words("seen_at trend", high=(day - time.mean) / time.scale)
        == "seen_at is no later than 2026-02-01 00:00 UTC"
    )
    both = Segment(
        (
            Bound(
                ((encoder().names.index("age"), 1.0), (encoder().names.index("device=phone"), -0.5)), low=0.0
            ),
        )
    )
    assert both.words(encoder()) == "standardised age − 0.5·device=phone > 0"


def test_the_audit_speaks_of_raw_columns():
    rng = np.random.default_rng(0)
    n = 3000
    device = rng.choice(["phone", "desktop"], n)
    eligible = [["a", "b"] if each == "phone" else ["a", "b", "c"] for each in device]
    action = [str(rng.choice(each)) for each in eligible]
    table = {
        "device": device,
        "age": rng.integers(18, 80, n),
        "action": action,
        "reward": rng.random(n),
        "eligible": eligible,
        "propensity": [1 / len(each) for each in eligible],
    }
    found = audit(read_log(table))
    assert any("device is" in gap.where for gap in found.gap_map.gaps)
