"""Support-aware intervals hold the truth under deficient support, where plain ones do not."""

from dataclasses import replace

import numpy as np
import pytest

from sparing.experiments.coverage import CoverageSetting, measure
from sparing.simulation import LOGGING

WORLDS = 60
SETTING = replace(
    CoverageSetting(),
    worlds=WORLDS,
    methods=("dm", "ips", "clipped", "snips", "dr", "sndr", "cab", "aipw"),
)
TOLERANCE = 3 * np.sqrt(0.95 * 0.05 / WORLDS)


@pytest.fixture(scope="module", params=list(LOGGING))
def coverage(request):
    return {found.method: found for found in measure(SETTING, request.param)}


def test_ours_cover(coverage):
    for found in coverage.values():
        assert found.aware >= 0.95 - TOLERANCE, found


def test_plain_ips_fails_where_the_policy_leaves_the_support(coverage):
    assert coverage["ips"].mass > 0.05
    assert coverage["ips"].plain < 0.95 - TOLERANCE


def test_no_plain_interval_survives_actions_that_were_never_logged():
    found = measure(replace(SETTING, worlds=40), "never-logged")
    assert max(each.plain for each in found) < 0.8


def test_fitted_propensities_cover_too():
    (found,) = measure(replace(SETTING, worlds=10, methods=("mlips",)), "never-logged")
    assert found.aware == 1.0
