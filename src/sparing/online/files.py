"""Learners on disk: one archive of arrays and JSON, checked when it is read."""

import math
import os
import sys
from collections.abc import Callable, Mapping
from dataclasses import asdict
from typing import Any

import numpy as np

from sparing import archive
from sparing.errors import FileError
from sparing.log import labels
from sparing.log.features.encoder import Encoder
from sparing.log.limits import LARGEST
from sparing.model.confidence import RADII, SMALLEST, Assumptions
from sparing.model.prior import FeatureBlocks, Prior
from sparing.native.struct import StructArrays
from sparing.online.confidence_sets import STATE, ConfidenceSets, InitialSets
from sparing.online.core import PendingCall
from sparing.online.decision import Chances, Decision
from sparing.online.engine import search, state
from sparing.online.engine.state import NoiseMonitor
from sparing.online.learner import Learner
from sparing.online.log_beats import LogBeats
from sparing.online.rules import CertifiedRule, ConfidentRule, EconomicalRule, SkipRule, SupportedRule

MOST = sys.float_info.max
KIND = "sparing learner"
VERSION = 5

DISK_NAMES = {"rounding_growth": "shrunk", "view_mask": "hidden", "context_sample": "reservoir"}
"""Arrays of the sets whose name in files differs from their name in memory."""

RULES: dict[str, Callable[[dict[str, Any], dict[str, np.ndarray]], SkipRule]] = {
    SupportedRule.name: lambda header, arrays: SupportedRule(arrays["frozen"]),
    CertifiedRule.name: lambda header, arrays: CertifiedRule(_number(header["tolerance"], -math.inf, MOST)),
    ConfidentRule.name: lambda header, arrays: ConfidentRule(
        _number(header["tolerance"], 0.0, MOST), _number(header["confidence"], 0.0), _bool(header["strict"])
    ),
    LogBeats.name: LogBeats.from_saved,
    EconomicalRule.name: lambda header, arrays: EconomicalRule(
        _number(header["call_cost"], 0.0, MOST),
        None if header["horizon"] is None else _integer(header["horizon"], 2**62),
        None if header["discount"] is None else _number(header["discount"], 0.0, math.nextafter(1.0, 0.0)),
        None if header["calls"] is None else _integer(header["calls"], 2**62),
    ),
}


def save(learner: Learner, path: str | os.PathLike[str]) -> None:
    archive.write(path, KIND, VERSION, *parts(learner))


def parts(learner: Learner) -> tuple[dict[str, Any], dict[str, np.ndarray]]:
    """A learner as a header for JSON, and arrays."""
    sets = learner.sets
    pending = [learner.pending_call(~number) for number in learner.open]
    header = {
        "algorithm": learner.algorithm,
        "guarantee": learner._guarantee,
        "fit": learner.fit,
        "action_names": [labels.to_json(name) for name in learner.action_names],
        "encoder": learner.encoder.header(),
        "item_encoder": learner.item_encoder and learner.item_encoder.header(),
        "assumptions": asdict(sets.assumptions),
        "sets": {name: getattr(sets, name) for name in ("ridge", "constant", "slack", "misfit")},
        "rules": [[rule.name, rule.header()] for rule in learner.rules],
        "explore": learner.explore,
        "optimism": learner.optimism,
        "spot_check": learner.spot_check,
        "monitor": _monitor_header(sets.monitor),
        "reward_range": learner.reward_range,
        "rounds": learner.rounds,
        "calls": learner.calls,
        "key": learner.key,
        "open": [_decision_header(*one) for one in zip(learner.open.values(), pending, strict=True)],
        "prior": prior_header(learner.prior),
        "retired": np.flatnonzero(~learner.active()).tolist(),
    }
    arrays = {f"sets/{DISK_NAMES.get(name, name)}": array for name, array in sets.state().items()}
    arrays["priority"] = learner.priority
    arrays["open"] = np.array([one.x for one in pending]).reshape(len(pending), learner.n_features)
    arrays |= _calls(learner) | prior_arrays(learner.prior, sets.origins)
    for number, rule in enumerate(learner.rules):
        arrays |= {f"rules/{number}/{name}": array for name, array in rule.arrays().items()}
    return header, arrays


def load(path: str | os.PathLike[str]) -> Learner:
    """Read a learner that `Learner.save` wrote; it decides as the saved one would have.

    Parameters
    ----------
    path : str or path

    Returns
    -------
    Learner

    Raises
    ------
    FileError
        If the file is missing, damaged, of another kind or of an unknown version.
    """
    with archive.understanding(path, "learner"):
        return from_parts(path, *archive.read(path, KIND, VERSION))


def from_parts(
    path: str | os.PathLike[str], header: dict[str, Any], arrays: dict[str, np.ndarray]
) -> Learner:
    """The learner of these `parts`, read from `path`."""
    learner = _learner(header, arrays)
    if learner.sets.inconsistent():
        raise FileError(f"{path} holds matrices that contradict their inverses; it was not saved by sparing")
    return learner


def _calls(learner: Learner) -> dict[str, np.ndarray]:
    """Imputed calls as arrays: actions (m,), contexts (m, d), predictions (m,)."""
    calls = learner.pending_calls()
    return {
        "calls/actions": np.array([action for action, _, _ in calls], dtype=np.int64),
        "calls/contexts": np.array([x for _, x, _ in calls]).reshape(len(calls), learner.n_features),
        "calls/predicted": np.array([predicted for _, _, predicted in calls], dtype=np.float64),
    }


def _read_calls(arrays: dict[str, np.ndarray], learner: Learner) -> list[PendingCall]:
    actions, contexts, predicted = (arrays[name] for name in ("actions", "contexts", "predicted"))
    m = len(actions)
    if actions.dtype != np.int64 or contexts.dtype != np.float64 or predicted.dtype != np.float64:
        raise ValueError("open calls of another type")
    if contexts.shape != (m, learner.n_features) or predicted.shape != (m,) or actions.shape != (m,):
        raise ValueError(f"{m} open calls with contexts of shape {contexts.shape}")
    if m and not (0 <= actions.min() <= actions.max() < learner.n_actions):
        raise ValueError("open calls on actions that there are none of")
    if not ((np.abs(contexts) <= LARGEST).all() and np.isfinite(predicted).all()):
        raise ValueError("open calls with numbers that are not finite")
    return [
        PendingCall(int(a), x.copy(), float(p)) for a, x, p in zip(actions, contexts, predicted, strict=True)
    ]


def _decision_header(decision: Decision, call: PendingCall) -> dict[str, Any]:
    """A pending decision as JSON: its action by index, its probabilities as numbers."""
    chances = [decision.play_probability, decision.call_probability]
    return {
        **decision._asdict(),
        "action": int(call.action),
        "chances": chances,
        "predicted": call.predicted,
    }


def _learner(header: dict[str, Any], arrays: dict[str, np.ndarray]) -> Learner:
    settings: Any = {
        name: None if value is None else _number(value, 0.0) for name, value in header["sets"].items()
    }
    _number(settings["ridge"], SMALLEST)
    sets = restored(with_prefix(arrays, "sets/"), _assumptions(header["assumptions"]), **settings)
    sets.origins = read_initial_sets(with_prefix(arrays, "origins/"), *sets.shape)
    rules = [
        RULES[name](settings, with_prefix(arrays, f"rules/{number}/"))
        for number, (name, settings) in enumerate(header["rules"])
    ]
    names = tuple(map(labels.from_json, header["action_names"]))
    priority = arrays["priority"]
    if sets.shape[0] != len(names) or len(set(names)) != len(names):
        raise ValueError(f"{len(names)} action names for {sets.shape[0]} sets, or some of them twice")
    if priority.shape != (len(names),) or not np.array_equal(np.sort(priority), np.arange(len(names))):
        raise ValueError("the order of ties is damaged")
    for rule in rules:
        if isinstance(rule, SupportedRule) and not np.array_equal(rule.frozen, sets.frozen):
            raise ValueError("the supported actions are not the frozen ones")
        if isinstance(rule, LogBeats):
            rule.check(*sets.shape)
        if isinstance(rule, EconomicalRule) and not len(sets.arrays.context_sample):
            raise ValueError("a price without contexts to weigh it by")
    sets.prioritise(priority)
    for action in header["retired"]:
        sets.retire(_integer(action, len(names)))
    if len(header["retired"]) and not sets.arrays.active.any():
        raise ValueError("every action is retired")
    if header["monitor"] is not None:
        sets.resume_monitor(_monitor(header["monitor"], sets))
    learner = Learner(
        header["algorithm"],
        names,
        sets,
        rules,
        key=_integer(header["key"], 2**63),
        explore=header["explore"],
        optimism=_number(header["optimism"], 0.0),
        spot_check=_number(header["spot_check"], 0.0),
        reward_range=None if header["reward_range"] is None else _pair(header["reward_range"]),
        guarantee=header["guarantee"],
        fit=str(header["fit"]),
        encoder=_encoder(header, sets.shape[1]),
        item_encoder=header["item_encoder"] and Encoder.from_header(header["item_encoder"]),
        prior=read_prior(header["prior"], with_prefix(arrays, "prior/"), *sets.shape),
    )
    learner.set_counters(rounds=_integer(header["rounds"], 2**62), calls=_integer(header["calls"], 2**62))
    learner.restore_pending(_read_calls(with_prefix(arrays, "calls/"), learner))
    learner.restore([_decision(*pair, learner) for pair in zip(header["open"], arrays["open"], strict=True)])
    return learner


def _encoder(header: dict[str, Any], d: int) -> Encoder:
    encoder = Encoder.from_header(header["encoder"])
    if encoder.size != d:
        raise ValueError(f"features of {encoder.size} numbers for sets of {d}")
    return encoder


def _assumptions(saved: dict[str, Any]) -> Assumptions:
    numbers = {name: _number(saved[name], 0.0) for name in ("noise", "theta_bound", "context_bound")}
    numbers |= {name: _number(saved[name], SMALLEST) for name in ("ridge", "radius_scale")}
    numbers["delta"] = _number(saved["delta"], math.ulp(0.0))
    names = {name: tuple(map(str, saved[name])) for name in ("estimated", "assumed")}
    if saved["radius"] not in RADII or numbers["delta"] >= 1:
        raise ValueError(f"radius {saved['radius']!r} at delta {numbers['delta']}")
    return Assumptions(**{**saved, **numbers, **names})


def _monitor_header(monitor: NoiseMonitor | None) -> dict[str, Any] | None:
    # The present σ is the sets' constant.
    if monitor is None:
        return None
    return {name: value for name, value in monitor._asdict().items() if name != "prior_noise"}


def _monitor(saved: dict[str, Any], sets: ConfidenceSets) -> NoiseMonitor:
    noise, misfit = _number(saved["noise"], SMALLEST), _number(saved["misfit"], 0.0)
    if sets.constant is None or misfit != sets.misfit:
        raise ValueError("a noise monitor that does not fit its sets")
    calls, total = _integer(saved["calls"], 2**62), _number(saved["total"], 0.0)
    return NoiseMonitor(noise, misfit, calls, total, sets.constant)


def _decision(entry: dict[str, Any], x: np.ndarray, learner: Learner) -> tuple[Decision, PendingCall]:
    """A pending decision from JSON, and its context (d,)."""
    if x.shape != (learner.n_features,) or x.dtype != np.float64 or not (np.abs(x) <= LARGEST).all():
        raise ValueError(f"an open decision's context of shape {x.shape} and type {x.dtype}")
    action = _integer(entry["action"], learner.n_actions)
    made = {key: value for key, value in entry.items() if key != "predicted"}
    for name in ("value", "low", "high"):
        _number(made[name], -MOST, MOST)
    if made.get("worth") is not None:
        _number(made["worth"], 0.0, MOST)
    made |= {"action": learner.action_names[action], "chances": Chances(*map(_number, made["chances"]))}
    _integer(made["id"], learner.rounds)
    predicted = None if entry["predicted"] is None else _number(entry["predicted"], -MOST, MOST)
    return Decision(**made), PendingCall(action, x.copy(), predicted)


def _pair(values: Any) -> tuple[float, float]:
    low, high = map(_number, values)
    return low, high


def _bool(value: Any) -> bool:
    if type(value) is not bool:
        raise ValueError(f"{value!r} where true or false is expected")
    return value


def _integer(value: Any, limit: int) -> int:
    if type(value) is not int or not 0 <= value < limit:
        raise ValueError(f"{value!r} where a whole number from 0 to below {limit} is expected")
    return value


def _number(value: Any, least: float = -LARGEST, most: float = LARGEST) -> float:
    if type(value) not in (int, float) or not least <= value <= most:
        raise ValueError(f"{value!r} where a number from {least:g} to {most:g} is expected")
    return float(value)


def with_prefix(arrays: dict[str, np.ndarray], prefix: str) -> dict[str, np.ndarray]:
    """The arrays whose names have the prefix, without it."""
    return {name.removeprefix(prefix): array for name, array in arrays.items() if name.startswith(prefix)}


FIELDS = ("spread", "slope", "flat", "weights", "items", "standard")


def prior_arrays(prior: Prior | None, origins: InitialSets) -> dict[str, np.ndarray]:
    found = {"origins/row": origins.row, "origins/matrix": origins.matrix, "origins/pull": origins.response}
    if prior is not None:
        q, d = prior.weights.shape
        found |= {f"prior/{name}": getattr(prior, name) for name in FIELDS}
        found |= {
            "prior/doubt": prior.coefficient_covariance.reshape(q * d, q * d),
            "prior/blocks": prior.blocks.of,
        }
    return found


def prior_header(prior: Prior | None) -> dict[str, Any] | None:
    if prior is None:
        return None
    return {
        "noise": prior.noise,
        "blocks": list(prior.blocks.names),
        "actions": prior.actions,
        "told": list(prior.informative),
        "given": list(prior.given),
    }


def read_prior(saved: dict[str, Any] | None, given: dict[str, np.ndarray], k: int, d: int) -> Prior | None:
    """The prior of a learner of K actions and d features."""
    if saved is None:
        return None
    q = given["items"].shape[1]
    shapes = {
        "spread": (d,),
        "slope": (d,),
        "flat": (d,),
        "weights": (q, d),
        "doubt": (q * d, q * d),
        "items": (k, q),
        "standard": (2, q - 1),
    }
    for name, shape in shapes.items():
        _check_array(f"prior/{name}", given[name], shape, np.float64)
    names, of = tuple(map(str, saved["blocks"])), given["blocks"]
    _check_array("prior/blocks", of, (d,), np.int64)
    if not ((of >= 0).all() and (of < len(names)).all() and (given["spread"] > 0).all()):
        raise ValueError("blocks that there are none of, or a prior without deviation")
    noise, actions = saved["noise"], saved["actions"]
    if type(noise) is not float or not 0 < noise < np.inf or type(actions) is not int:
        raise ValueError("a prior without noise, or of no number of actions")
    return Prior(
        noise,
        given["spread"],
        given["slope"],
        given["flat"],
        given["weights"],
        given["doubt"].reshape(q, d, q, d),
        given["items"],
        FeatureBlocks(of, names),
        actions,
        tuple(map(bool, saved["told"])),
        tuple(map(str, saved["given"])),
        given["standard"],
    )


def read_initial_sets(given: dict[str, np.ndarray], k: int, d: int) -> InitialSets:
    """The initial sets of a learner of K actions and d features."""
    row, matrix, response = (given[name] for name in ("row", "matrix", "pull"))
    n = len(response)
    _check_array("origins/row", row, (k,), np.int64)
    _check_array("origins/pull", response, (n, d), np.float64)
    _check_array("origins/matrix", matrix, (len(matrix), d * (d + 1) // 2), np.float64)
    if not (n and (row >= 0).all() and (row < n).all() and len(matrix) in (1, n)):
        raise ValueError("actions that began nowhere")
    return InitialSets(row, matrix, response)


def _check_array(name: str, array: np.ndarray, shape: tuple[int, ...], kind: Any) -> None:
    if array.shape != shape or array.dtype != kind or not np.isfinite(array).all():
        raise ValueError(f"array {name} of shape {array.shape} and type {array.dtype}, or not finite")


def restored(
    arrays: Mapping[str, np.ndarray],
    assumptions: Assumptions,
    *,
    ridge: float,
    constant: float | None,
    slack: float,
    misfit: float,
) -> ConfidenceSets:
    """Rebuild sets from saved arrays; reject arrays that do not fit together."""
    used, d = arrays["response"].shape
    k, p = int(arrays["n_actions"]), state.packed_size(d)
    sets = ConfidenceSets.__new__(ConfidenceSets)
    sets.assumptions, sets.ridge, sets.slack, sets.misfit = assumptions, ridge, slack, misfit
    sets.growing, sets.added = bool(arrays["growing"]), arrays["added"]
    if sets.added.shape != (k,) or sets.added.dtype != np.int64 or sets.added.min(initial=0) < 0:
        raise ValueError("the added actions are damaged")
    if not 1 <= used <= 2 * k + 2:
        raise ValueError(f"{used} rows for {k} actions")
    shapes = {"gram": (used, p), "inverse": (used, p), "response": (used, d), "theta": (used, d)}
    sample = arrays.get("reservoir", np.empty((0, d)))
    fits = sample.ndim == 2 and sample.shape[1] == d and sample.dtype == np.float64
    if not fits or not (np.abs(sample) <= LARGEST).all():
        raise ValueError("the sample of future contexts is damaged")
    sets._allocate(k, d, used - 1, constant, sample)
    for name in STATE:
        place, given = getattr(sets.arrays, name), arrays[DISK_NAMES.get(name, name)]
        if given.shape != shapes.get(name, (used,)) or given.dtype != place.dtype:
            raise ValueError(f"array {name} of shape {given.shape} and type {given.dtype}")
        if not np.isfinite(given).all():
            raise ValueError(f"array {name} holds numbers that are not finite")
        place[:used] = given
    sets.arrays.used, sets.arrays.digest = used, arrays["digest"]
    check_slots(sets.arrays, used, k)
    sets._index_slots()
    sets._sync_settings()
    search.radii_all(sets.scratch.observed)
    sets._bound()
    return sets


def check_slots(a: StructArrays, used: int, k: int) -> None:
    """Reject slots that compiled code could not have left."""
    action, view_mask, waiting = a.action[1:used], a.view_mask[1:used], a.waiting[1:used]
    if used > 1 and not (
        0 <= action.min() <= action.max() < k and 0 <= view_mask.min() <= view_mask.max() <= 3
    ):
        raise ValueError("slots of unknown actions, or hidden from unknown views")
    if a.view_mask[0] or min(a.logged[:used].min(), a.live[:used].min(), waiting.min(initial=0)) < 0:
        raise ValueError("negative counts, or a hidden first slot")
    if not (a.rounding_growth[:used] >= 1).all() or ((a.frozen[:used] != 0) & (a.frozen[:used] != 1)).any():
        raise ValueError("an inverse that grew, or an invalid point")
    for view in (1, 2):
        seen = action[view_mask & view == 0]
        if len(np.unique(seen)) != len(seen):
            raise ValueError("an action has two slots in one view")
    copies = view_mask == 1
    if not np.isin(action[view_mask == 2], action[copies]).all() or not (waiting[copies] > 0).all():
        raise ValueError("a pending copy without pending calls, or a hidden slot without a pending copy")
