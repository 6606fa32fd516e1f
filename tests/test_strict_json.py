"""JSON that a strict reader takes."""

import json

import numpy as np
import pytest

from sparing.archive import strict_json


def refuse(constant):
    raise AssertionError(f"{constant} is not JSON")


def test_what_is_not_a_number_is_null():
    value = {
        "nan": np.nan,
        "deep": [(1, np.inf), {"x": -np.inf, "y": np.float32("nan")}],
        "array": np.array([[1.5, np.nan]]),
        np.int64(3): np.bool_(True),
        "whole": np.int64(7),
        "text": "NaN Infinity é",
        "none": None,
    }
    assert json.loads(strict_json(value, indent=1), parse_constant=refuse) == {
        "nan": None,
        "deep": [[1, None], {"x": None, "y": None}],
        "array": [[1.5, None]],
        "3": True,
        "whole": 7,
        "text": "NaN Infinity é",
        "none": None,
    }


def test_finite_numbers_come_back_bit_for_bit():
    numbers = np.random.default_rng(0).standard_normal(100) * 10.0 ** np.arange(-50, 50)
    assert json.loads(strict_json(numbers, indent=2)) == numbers.tolist()


def test_what_json_has_no_type_for_is_refused():
    with pytest.raises(TypeError):
        strict_json({"x": object()}, indent=1)
