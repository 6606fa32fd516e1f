"""How many kernel features the evidence asks for."""

import numpy as np
import pytest

from sparing import with_kernel
from sparing.log import Log
from sparing.model import linearity as kernels
from sparing.model.prior import Evidence, blocks_of, evidence_of
from sparing.model.statistics import Statistics


def make(d, bend, *, rows=2000, k=4, seed=0):
    """Raw features, the first constant: r = z + bend·z² + noise, z = x·θ_a."""
    rng = np.random.default_rng([seed, 17])
    x = rng.standard_normal((rows, d)) / np.sqrt(d)
    x[:, 0] = 1
    actions = rng.integers(0, k, rows)
    z = np.einsum("nd,nd->n", x, rng.standard_normal((k, d))[actions])
    rewards = z + bend * z**2 + 0.3 * rng.standard_normal(rows)
    return Log.from_arrays(x, actions, rewards, propensities=np.full(rows, 1 / k), action_names=range(k))


def test_linear_rewards_of_many_raw_features_ask_for_none():
    """Compared in the encoder's blocks, which join the constant and the other raw features, 64 landmarks would win."""
    assert with_kernel(make(110, 0.0, rows=3000, k=6)).encoder.kernel is None


def test_bent_rewards_ask_for_some():
    assert with_kernel(make(4, 1.0)).encoder.kernel is not None


@pytest.mark.parametrize("d", [4, 40])
def test_candidates_differ_by_the_kernel_alone(d, monkeypatch):
    """The linear coordinates have one and the same block in all candidates, whatever the encoder would name them."""
    seen = []

    def recorded(sums, *, blocks, near):
        seen.append([blocks.names[block] for block in blocks.of])
        return Evidence(0.0, 1.0, {})

    monkeypatch.setattr(kernels, "evidence_of", recorded)
    with_kernel(make(d, 0.0))
    assert len(seen) == len(kernels.CHOICES)
    assert all(names[:d] == seen[0] and set(names[d:]) <= {"kernel"} for names in seen)
    assert len(seen[0]) == d < len(seen[1]) < len(seen[2])


@pytest.mark.parametrize("bend", [0.0, 1.0])
def test_a_search_from_a_like_model_finds_the_same(bend):
    """From the scales of fewer landmarks, and from far off: the evidence is that of a search from scratch, to a twentieth."""
    log, last = make(5, bend, k=12), None
    for landmarks in (0, 32, 64):
        sums = Statistics.of(with_kernel(log, landmarks))
        names = ["constant", *["features"] * 4, *["kernel"] * (sums.n_features - 5)]
        blocks = blocks_of(sums, names)
        alone = evidence_of(sums, blocks=blocks)
        far = Evidence(0.0, 5.0, {"features": 0.01, "kernel": 10.0})
        assert evidence_of(sums, blocks=blocks, near=far).value == pytest.approx(alone.value, abs=0.05)
        last = evidence_of(sums, blocks=blocks, near=last)
        assert last.value == pytest.approx(alone.value, abs=0.05)
        assert last.noise == pytest.approx(alone.noise, rel=0.01)
