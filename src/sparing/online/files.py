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
from sparing.online import drift
from sparing.online.alarms import Watch
from sparing.online.confidence_sets import (
    FORGETTING,
    FORGETTING_COUNTS,
    REVIEW_COUNTS,
    SHIFT,
    STATE,
    ConfidenceSets,
    InitialSets,
)
from sparing.online.core import PendingCall
from sparing.online.decision import Chances, Decision
from sparing.online.engine import search, state
from sparing.online.learner import Learner
from sparing.online.log_beats import LogBeats
from sparing.online.rules import CertifiedRule, ConfidentRule, EconomicalRule, SkipRule, SupportedRule

MOST = sys.float_info.max
KIND = "sparing learner"
VERSION, WITHOUT_CHANGE, WITHOUT_COSTS, WITHOUT_LIVE_CONTEXTS = 8, 7, 6, 5

SAMPLE_COUNTS = "sets/sample_counts"
"""The array of learners whose sample of contexts live ones enter: none do in a learner saved before version 6."""

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
        None if header["horizon"] is None else _integer(header["horizon"]),
        None if header["discount"] is None else _number(header["discount"], 0.0, math.nextafter(1.0, 0.0)),
        None if header["calls"] is None else _integer(header["calls"]),
        stops_early=_bool(header.get("stops_early", False)),  # no rule did before version 7
    ),
}


def save(learner: Learner, path: str | os.PathLike[str]) -> None:
    header, arrays = parts(learner)
    version = WITHOUT_COSTS if SAMPLE_COUNTS in arrays else WITHOUT_LIVE_CONTEXTS
    early = any("stops_early" in rule for _, rule in header["rules"])
    if early or learner.action_costs is not None or any("cost" in one for one in header["open"]):
        version = WITHOUT_CHANGE  # an earlier release would decide without them
    if {"sets/forgetting", "sets/shift"} & arrays.keys():
        version = VERSION
    archive.write(path, KIND, version, header, arrays)


def parts(learner: Learner) -> tuple[dict[str, Any], dict[str, np.ndarray]]:
    """A learner as a header for JSON, and arrays."""
    sets = learner.sets
    monitor = sets.monitor and sets.monitor._asdict()
    if monitor:
        del monitor["prior_noise"], monitor["faded"]  # the present σ is the sets' constant
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
        "monitor": monitor,
        "reward_range": learner.reward_range,
        "rounds": learner.rounds,
        "calls": learner.calls,
        "key": learner.key,
        "open": [_decision_header(*one) for one in zip(learner.open.values(), pending, strict=True)],
        "prior": _prior_header(learner.prior),
        "retired": np.flatnonzero(~learner.active()).tolist(),
    }
    arrays = {f"sets/{DISK_NAMES.get(name, name)}": array for name, array in sets.state().items()}
    if learner.action_costs is not None:
        arrays["costs"] = learner.action_costs
    arrays["priority"] = sets.ties
    arrays["open"] = np.array([one.x for one in pending]).reshape(len(pending), learner.n_features)
    calls = learner.pending_calls()
    arrays["calls/actions"] = np.array([action for action, _, _ in calls], dtype=np.int64)
    arrays["calls/contexts"] = np.array([x for _, x, _ in calls]).reshape(len(calls), learner.n_features)
    arrays["calls/predicted"] = np.array([predicted for _, _, predicted in calls], dtype=np.float64)
    arrays |= _prior_arrays(learner.prior, sets.origins)
    if learner.watch.begun:
        arrays |= {f"alarms/{name}": array for name, array in learner.watch.state().items()}
    for number, rule in enumerate(learner.rules):
        arrays |= {f"rules/{number}/{name}": array for name, array in rule.arrays().items()}
    return header, arrays


def load(path: str | os.PathLike[str]) -> Learner:
    """Read a learner that `Learner.save` wrote; it decides as the saved one would have.

    Parameters
    ----------
    path : str or path

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


def _read_calls(arrays: dict[str, np.ndarray], learner: Learner) -> list[PendingCall]:
    actions, contexts, predicted = (arrays[name] for name in ("actions", "contexts", "predicted"))
    m = len(actions)
    _check_array("calls/actions", actions, (m,), np.int64, 0, learner.n_actions - 1)
    _check_array("calls/contexts", contexts, (m, learner.n_features), np.float64, -LARGEST, LARGEST)
    _check_array("calls/predicted", predicted, (m,), np.float64)
    return [
        PendingCall(a, x.copy(), p)
        for a, x, p in zip(actions.tolist(), contexts, predicted.tolist(), strict=True)
    ]


def _decision_header(decision: Decision, call: PendingCall) -> dict[str, Any]:
    """A pending decision as JSON: its action by index, its probabilities as numbers."""
    chances = [decision.play_probability, decision.call_probability]
    changed = {"action": int(call.action), "chances": chances, "predicted": call.predicted}
    header = {**decision._asdict(), **changed}
    del header["source"]
    if not decision.unseen:  # as files have been before there was any
        del header["unseen"]
    if decision.cost is None:
        del header["cost"]
    return header


def _learner(header: dict[str, Any], arrays: dict[str, np.ndarray]) -> Learner:
    settings: Any = {
        name: None if value is None else _number(value, 0.0) for name, value in header["sets"].items()
    }
    _number(settings["ridge"], SMALLEST)
    sets = restored(with_prefix(arrays, "sets/"), _assumptions(header["assumptions"]), **settings)
    sets.origins = _read_initial_sets(with_prefix(arrays, "origins/"), *sets.shape)
    encoder = Encoder.from_header(header["encoder"])
    if encoder.size != sets.shape[1]:
        raise ValueError(f"features of {encoder.size} numbers for sets of {sets.shape[1]}")
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
            _check_log_beats(rule, *sets.shape)
        if isinstance(rule, EconomicalRule) and not len(sets.arrays.context_sample):
            raise ValueError("a price without contexts to weigh it by")
    sets.prioritise(priority)
    for action in header["retired"]:
        sets.retire(_integer(action, len(names)))
    if len(header["retired"]) and not sets.arrays.active.any():
        raise ValueError("every action is retired")
    if header["monitor"] is not None:
        _resume_monitor(header["monitor"], sets)
    reward_range = None if header["reward_range"] is None else _pair(header["reward_range"])
    watched = with_prefix(arrays, "alarms/")
    learner = Learner(
        header["algorithm"],
        names,
        sets,
        rules,
        key=_integer(header["key"], 2**63),
        explore=header["explore"],
        optimism=_number(header["optimism"], 0.0),
        spot_check=_number(header["spot_check"], 0.0, math.nextafter(1.0, 0.0)),
        reward_range=reward_range,
        watch=Watch.restored(watched, len(names), sets.shape[1], reward_range) if watched else None,
        guarantee=header["guarantee"],
        fit=str(header["fit"]),
        encoder=encoder,
        item_encoder=header["item_encoder"] and Encoder.from_header(header["item_encoder"]),
        prior=_read_prior(header["prior"], with_prefix(arrays, "prior/"), *sets.shape),
        costs=_read_costs(arrays.get("costs"), len(names)),
    )
    learner.set_counters(rounds=_integer(header["rounds"]), calls=_integer(header["calls"]))
    sets.arrays.sampled_from = int(arrays[SAMPLE_COUNTS][0]) if SAMPLE_COUNTS in arrays else state.NEVER
    learner.find_next_entry()
    drift.resume(learner)
    learner.restore_pending(_read_calls(with_prefix(arrays, "calls/"), learner))
    learner._restore([_decision(*pair, learner) for pair in zip(header["open"], arrays["open"], strict=True)])
    return learner


def _read_costs(costs: np.ndarray | None, k: int) -> np.ndarray | None:
    if costs is not None:
        _check_array("costs", costs, (k,), np.float64, -LARGEST, LARGEST)
    return costs


def _assumptions(saved: dict[str, Any]) -> Assumptions:
    numbers = {name: _number(saved[name], 0.0) for name in ("noise", "theta_bound", "context_bound")}
    numbers |= {name: _number(saved[name], SMALLEST) for name in ("ridge", "radius_scale")}
    numbers["delta"] = _number(saved["delta"], math.ulp(0.0))
    names = {name: tuple(map(str, saved[name])) for name in ("estimated", "assumed")}
    if saved["radius"] not in RADII or numbers["delta"] >= 1:
        raise ValueError(f"radius {saved['radius']!r} at delta {numbers['delta']}")
    return Assumptions(**{**saved, **numbers, **names})


def _resume_monitor(saved: dict[str, Any], sets: ConfidenceSets) -> None:
    if sets.constant is None or _number(saved["misfit"], 0.0) != sets.misfit:
        raise ValueError("a noise monitor that does not fit its sets")
    a = sets.arrays
    a.sigma, a.calls = _number(saved["noise"], SMALLEST), _integer(saved["calls"])
    a.residual_sum = _number(saved["total"], 0.0, MOST)  # of squares


def _decision(entry: dict[str, Any], x: np.ndarray, learner: Learner) -> tuple[Decision, PendingCall]:
    """A pending decision from JSON, and its context (d,)."""
    _check_array("open", x, (learner.n_features,), np.float64, -LARGEST, LARGEST)
    action = _integer(entry["action"], learner.n_actions)
    made = {key: value for key, value in entry.items() if key != "predicted"}
    for name in ("value", "low", "high"):
        _number(made[name], -MOST, MOST)
    if made.get("worth") is not None:
        _number(made["worth"], 0.0, MOST)
    if made.get("cost") is not None:
        _number(made["cost"])
    made["unseen"] = tuple(map(str, made.get("unseen", ())))
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


def _integer(value: Any, limit: int = 2**62) -> int:
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


def _check_array(
    name: str,
    array: np.ndarray,
    shape: tuple[int, ...],
    kind: Any,
    least: float = -math.inf,
    most: float = math.inf,
) -> None:
    """Reject an array of another shape or type, or with numbers that are not finite or out of range."""
    if array.shape != shape or array.dtype != kind or not np.isfinite(array).all():
        raise ValueError(f"array {name} of shape {array.shape} and type {array.dtype}, or not finite")
    if not ((array >= least) & (array <= most)).all():
        raise ValueError(f"array {name} holds numbers that are not from {least:g} to {most:g}")


PRIOR_ARRAYS = ("spread", "slope", "flat", "weights", "items", "standard")


def _prior_arrays(prior: Prior | None, origins: InitialSets) -> dict[str, np.ndarray]:
    found = {"origins/row": origins.row, "origins/matrix": origins.matrix, "origins/pull": origins.response}
    if prior is not None:
        q, d = prior.weights.shape
        found |= {f"prior/{name}": getattr(prior, name) for name in PRIOR_ARRAYS}
        found["prior/doubt"] = prior.coefficient_covariance.reshape(q * d, q * d)
        found["prior/blocks"] = prior.blocks.of
    return found


def _prior_header(prior: Prior | None) -> dict[str, Any] | None:
    if prior is None:
        return None
    return {
        "noise": prior.noise,
        "blocks": list(prior.blocks.names),
        "actions": prior.actions,
        "told": list(prior.informative),
        "given": list(prior.given),
    }


def _read_prior(saved: dict[str, Any] | None, given: dict[str, np.ndarray], k: int, d: int) -> Prior | None:
    """The prior of a learner of K actions and d features."""
    if saved is None:
        return None
    q = given["items"].shape[1]
    shapes = {"spread": (d,), "slope": (d,), "flat": (d,), "weights": (q, d), "items": (k, q)}
    shapes |= {"doubt": (q * d, q * d), "standard": (2, q - 1)}
    for name, shape in shapes.items():
        least = math.ulp(0.0) if name == "spread" else -math.inf
        _check_array(f"prior/{name}", given[name], shape, np.float64, least)
    names = tuple(map(str, saved["blocks"]))
    _check_array("prior/blocks", given["blocks"], (d,), np.int64, 0, len(names) - 1)
    if type(saved["noise"]) is not float or type(saved["actions"]) is not int:
        raise ValueError("a prior without noise, or of no number of actions")
    arrays: Any = {name: given[name] for name in PRIOR_ARRAYS}
    return Prior(
        _number(saved["noise"], math.ulp(0.0), MOST),
        coefficient_covariance=given["doubt"].reshape(q, d, q, d),
        blocks=FeatureBlocks(given["blocks"], names),
        actions=saved["actions"],
        informative=tuple(map(bool, saved["told"])),
        given=tuple(map(str, saved["given"])),
        **arrays,
    )


def _read_initial_sets(given: dict[str, np.ndarray], k: int, d: int) -> InitialSets:
    """The initial sets of a learner of K actions and d features."""
    row, matrix, response = (given[name] for name in ("row", "matrix", "pull"))
    n = len(response)
    _check_array("origins/row", row, (k,), np.int64, 0, n - 1)
    _check_array("origins/pull", response, (n, d), np.float64)
    _check_array("origins/matrix", matrix, (1 if len(matrix) == 1 else n, d * (d + 1) // 2), np.float64)
    return InitialSets(row, matrix, response)


def _check_log_beats(rule: LogBeats, n_actions: int, n_features: int) -> None:
    """Reject tables of the log that do not fit the learner or each other."""

    def check_indices(name: str, array: np.ndarray, count: int, limit: int) -> None:
        _check_array(name, array, (count,), np.int32 if array.dtype == np.int32 else np.int64, 0, limit - 1)

    groups = len(rule.policy[0]) - 1 if rule.policy else 2**62
    for memory in filter(None, (rule.by_context, rule.by_id)):
        m, columns = len(memory.keys), (n_features,) if memory is rule.by_context else ()
        kinds = "f" if columns else "fiubU"
        if memory.keys.shape != (m, *columns) or memory.keys.dtype.kind not in kinds or memory.index.repeats:
            raise ValueError(f"contexts of shape {memory.keys.shape} in the log's memory, or repeated ones")
        thresholds = memory.thresholds
        if thresholds.shape != (m,) or thresholds.dtype.kind != "f" or np.isnan(thresholds).any():
            raise ValueError("thresholds that do not fit the log's contexts")
        check_indices("answers", memory.answers, m, n_actions)
        check_indices("groups", memory.groups, m, groups)
    if rule.policy is not None:
        offsets, actions, mass = rule.policy
        check_indices("policy_offsets", offsets, len(offsets), len(actions) + 1)
        check_indices("policy_actions", actions, len(actions), n_actions)
        _check_array("policy_mass", mass, actions.shape, np.float64, 0)
        if (np.diff(offsets) < 0).any():
            raise ValueError("the log's policy is not a table of masses")


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
    _check_array("added", sets.added, (k,), np.int64, 0)
    if not 1 <= used <= 2 * k + 2:
        raise ValueError(f"{used} rows for {k} actions")
    shapes = {"gram": (used, p), "inverse": (used, p), "response": (used, d), "theta": (used, d)}
    limits: dict[str, tuple[float, float]] = dict.fromkeys(("logged", "live", "waiting"), (0, math.inf))
    limits |= {"rounding_growth": (1, math.inf), "frozen": (0, 1), "action": (0, k - 1), "view_mask": (0, 3)}
    sample = arrays.get("reservoir", np.empty((0, d)))
    _check_array("reservoir", sample, (len(sample), d), np.float64, -LARGEST, LARGEST)
    sets._allocate(k, d, used - 1, constant, sample)
    if "sample_counts" in arrays:
        for name in ("next_sample", "logged_sample"):
            _check_array(name, arrays[name], sample.shape, np.float64, -LARGEST, LARGEST)
            getattr(sets.arrays, name)[:] = arrays[name]
        _check_array("logged_gram", arrays["logged_gram"], (p,), np.float64)
        sets.arrays.logged_gram[:] = arrays["logged_gram"]
        _check_array("sample_ids", arrays["sample_ids"], sample.shape[:1], np.int64, -1)
        _check_array("sample_counts", arrays["sample_counts"], (2,), np.int64, -state.NEVER, state.NEVER)
        sets.arrays.sample_ids[:] = arrays["sample_ids"]
        sets.arrays.entered = max(int(arrays["sample_counts"][1]), 0)
    _read_change(sets, arrays, used)
    for name in STATE:
        place, given = getattr(sets.arrays, name), arrays[DISK_NAMES.get(name, name)]
        _check_array(name, given, shapes.get(name, (used,)), place.dtype, *limits.get(name, ()))
        place[:used] = given
    sets.arrays.used, sets.arrays.digest = used, arrays["digest"]
    _check_slots(sets.arrays, used)
    sets._index_slots()
    sets._sync_settings()
    search.radii_all(sets.scratch.observed)
    sets._bound()
    return sets


def _read_change(sets: ConfidenceSets, arrays: Mapping[str, np.ndarray], used: int) -> None:
    """Take over what sets know of forgetting and of the shift between log and live, if they were saved with it."""
    parts = {"forgetting": FORGETTING, "shift": SHIFT}
    if not parts.keys() & arrays.keys():
        return
    found = {name: name in arrays for name in parts}
    sets._hold(state.grown(sets.arrays, **found))
    a = sets.arrays
    limits = {"kept": (0.0, 1.0), "live_squares": (0.0, math.inf), "live_rows": (0.0, math.inf)}
    limits |= dict.fromkeys(("fades", "faded_rows"), (0, math.inf))
    for part, names in parts.items():
        for name in names if found[part] else ():
            place, given = getattr(a, name), arrays[name]
            _check_array(name, given, (used, *place.shape[1:]), place.dtype, *limits.get(name, ()))
            place[:used] = given
    if found["forgetting"]:
        a.next_fade = 1
        _check_array("forgetting", arrays["forgetting"], (len(FORGETTING_COUNTS),), np.int64, 0, state.NEVER)
        for name, value in zip(FORGETTING_COUNTS, arrays["forgetting"].tolist(), strict=True):
            setattr(a, name, value)
        a.faded_calls = _number(float(arrays["faded_calls"]), 0.0)
        a.kept[used:] = 1.0
        if a.half_life and a.fades_from != state.NEVER and a.fades_from > a.clock:
            raise ValueError("forgetting that begins later than now")
    if found["shift"]:
        _check_array("spread", arrays["spread"], a.spread.shape, np.float64, 0.0)
        _check_array("shift", arrays["shift"], (2,), np.float64)
        _check_array("reviews", arrays["reviews"], (len(REVIEW_COUNTS),), np.int64, 0, state.NEVER)
        a.spread[:] = arrays["spread"]
        a.shift, a.shift_evidence = (float(value) for value in arrays["shift"])
        for name, value in zip(REVIEW_COUNTS, arrays["reviews"].tolist(), strict=True):
            setattr(a, name, value)


def _check_slots(a: StructArrays, used: int) -> None:
    """Reject slots that compiled code could not have left."""
    action, view_mask, waiting = a.action[1:used], a.view_mask[1:used], a.waiting[1:used]
    for view in (1, 2):
        seen = action[view_mask & view == 0]
        if len(np.unique(seen)) != len(seen):
            raise ValueError("an action has two slots in one view")
    copies = view_mask == 1
    lost = not np.isin(action[view_mask == 2], action[copies]).all() or not (waiting[copies] > 0).all()
    if lost or a.view_mask[0]:
        raise ValueError("a pending copy without pending calls, or a hidden slot without a pending copy")
