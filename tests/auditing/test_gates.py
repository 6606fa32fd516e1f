"""Gates: what they read, when they shut, and that what is not known never passes."""

import math

import pytest

from sparing.auditing import gate
from sparing.errors import SettingError

METRICS = {
    "unsupported_share": 0.5,
    "never_logged": 2,
    "smallest_propensity": None,
    "largest_upside": math.nan,
}


@pytest.mark.parametrize(
    ("text", "shut"),
    [
        ("unsupported_share>0.5", False),
        ("unsupported_share >= 0.5", True),
        ("unsupported_share<.6", True),
        ("unsupported_share<=5e-1", True),
        ("unsupported_share == 0.5", True),
        (" never_logged > +1 ", True),
        ("never_logged<-1", False),
        ("smallest_propensity<0", True),
        ("largest_upside>1", True),
        ("largest_upside<1", True),
        ("largest_upside==1", True),
    ],
)
def test_gates(text, shut):
    verdict = gate(text)(METRICS)
    assert (verdict is not None) == shut


def test_a_shut_gate_says_why():
    assert gate("never_logged>1")(METRICS) == "never_logged > 1: never_logged is 2"
    assert "is not known for this log" in gate("largest_upside>1")(METRICS)
    assert "is not known for this log" in gate("smallest_propensity<0.1")(METRICS)


@pytest.mark.parametrize(
    "text",
    ["", "unsupported_share", "unsupported_share>", ">0.2", "a=1", "a>b", "a>1 2", "a>nan", "A>1", "a>1;b>2"],
)
def test_what_cannot_be_read_is_refused(text):
    with pytest.raises(SettingError, match="METRIC OP NUMBER"):
        gate(text)


def test_an_unknown_metric_lists_the_known_ones():
    with pytest.raises(SettingError, match="'health': known are unsupported_share, never_logged"):
        gate("health<1")(METRICS)
