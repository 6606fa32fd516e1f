"""Policy files: one archive of arrays and a JSON header."""

import os
from collections.abc import Hashable
from dataclasses import replace
from typing import Any

import numpy as np

from sparing import archive
from sparing.errors import FileError, SettingError
from sparing.log import labels
from sparing.log.features.encoder import Encoder
from sparing.model.boosting import Trees
from sparing.policies.fingerprint import Split, TrainingFingerprint
from sparing.policies.policy import (
    LARGEST,
    BoostedPolicy,
    ConstantPolicy,
    GreedyPolicy,
    PessimisticPolicy,
    Policy,
    SoftmaxPolicy,
    StackedPolicy,
    SupportModel,
    UniformPolicy,
    VotingPolicy,
)
from sparing.policies.support import KnownSupport, TablePolicy, support_function
from sparing.validation import integer

KIND = "sparing policy"
VERSION, WITHOUT_COSTS = 5, 4
"""2 added the training rows and the encoder, 3 the lines of supported sets, 4 votes, 5 costs; all are read. A policy without
costs is written as 4."""

COSTS = "costs"

CLASSES: dict[str, tuple[type, tuple[str, ...], tuple[str, ...]]] = {
    "GreedyPolicy": (GreedyPolicy, ("theta", "priority"), ()),
    "SoftmaxPolicy": (SoftmaxPolicy, ("theta",), ("temperature",)),
    "PessimisticPolicy": (PessimisticPolicy, ("theta", "inverse", "radius", "priority"), ()),
    "TablePolicy": (TablePolicy, ("contexts", "table"), ()),
    "BoostedPolicy": (BoostedPolicy, ("priority",), ()),
    "StackedPolicy": (StackedPolicy, ("priority", "theta", "weights"), ()),
    "VotingPolicy": (VotingPolicy, ("weights", "priority"), ()),
    "UniformPolicy": (UniformPolicy, (), ()),
    "ConstantPolicy": (ConstantPolicy, (), ("action",)),
}
"""By the name written in files: the class, its arrays, and its own header fields. These names never change."""

SETS, LINES = ("contexts", "sets", "elsewhere"), "lines"
TREES = ("base", "rows", "roots", "owners", "features", "thresholds", "right", "values")


def save_policy(policy: Policy, path: str | os.PathLike[str], *, omit_support: bool = False) -> None:
    """Write a policy to a file; `load_policy` returns an equal one, bit for bit.

    Parameters
    ----------
    policy : Policy
        A policy of this package.
    path : str or PathLike
        The file to write.
    omit_support : bool
        Leave out a support function of yours, which a file cannot hold; `load_policy` then needs it again.

    Raises
    ------
    SettingError
        If the policy's class cannot be saved, or its support is a function and `omit_support` is False.
    """
    header, arrays = _encoded(policy, "", omit_support)
    known: TrainingFingerprint | None = getattr(policy, "trained_on", None)
    if known is not None:
        # The order check is no field of the split on disk: releases before 0.2 refuse a split with a field they lack.
        split = known.split and {"share": known.split.share, "seed": known.split.seed, "by": known.split.by}
        header["taught"] = {"rows": known.rows, "split": split}
        if known.split is not None and known.split.order is not None:
            header["taught"]["order"] = known.split.order
        arrays |= {"taught/sketch": known.sketch, "taught/counts": known.counts}
    encoder: Encoder | None = getattr(policy, "encoder", None)
    header["encoder"] = None if encoder is None else encoder.header()
    priced = any(name.rpartition("/")[2] == COSTS for name in arrays)
    archive.write(path, KIND, VERSION if priced else WITHOUT_COSTS, {"policy": header}, arrays)


def load_policy(path: str | os.PathLike[str], *, support: Any = None) -> Policy:
    """Read a policy that `save_policy` wrote.

    Parameters
    ----------
    path : str or PathLike
        The file to read.
    support : callable or Policy, optional
        The support function, if the policy was saved with ``omit_support=True``.

    Returns
    -------
    Policy

    Raises
    ------
    FileError
        If the file is missing, damaged, of a newer version, or needs `support`.
    SettingError
        If `support` does not fit the policy, or it needs none.
    """
    with archive.understanding(path, "policy"):
        header, arrays = archive.read(path, KIND, VERSION)
        saved = header["policy"]
        omitted, names = _omits(saved), _names(saved)
    if omitted and support is None:
        raise FileError(
            f"{path} holds a policy whose support is a function that was not saved. Pass it again: "
            "load_policy(path, support=...)"
        )
    if support is not None and not omitted:
        raise SettingError(f"{path} holds a policy that is whole without support=...; leave it out")
    given = support_function(support, names) if omitted else None
    with archive.understanding(path, "policy"):
        policy: Any = _decoded(saved, "", arrays, given)
        encoder = saved.get("encoder")
        fingerprint = _fingerprint(saved.get("taught"), arrays)
        encoder = None if encoder is None else Encoder.from_header(encoder)  # 0 is no encoder, and no None
        return replace(policy, trained_on=fingerprint, encoder=encoder)


def _fingerprint(saved: dict[str, Any] | None, arrays: dict[str, np.ndarray]) -> TrainingFingerprint | None:
    if saved is None:
        return None
    split = None if saved["split"] is None else Split(**saved["split"], order=saved.get("order"))
    return TrainingFingerprint(saved["rows"], arrays["taught/sketch"], arrays["taught/counts"], split)


def _encoded(policy: Any, prefix: str, omit: bool) -> tuple[dict[str, Any], dict[str, np.ndarray]]:
    written = {kind: (name, *fields) for name, (kind, *fields) in CLASSES.items()}
    if type(policy) not in written:
        raise SettingError(
            f"a {type(policy).__name__} cannot be saved; these can: {', '.join(CLASSES)}. Tabulate it: "
            "TablePolicy(action_names, contexts, policy.probabilities(contexts))"
        )
    kind, array_names, scalars = written[type(policy)]
    header: dict[str, Any] = {
        "kind": kind,
        "action_names": [labels.to_json(name) for name in policy.action_names],
        "method": policy.method,
        "notes": list(policy.notes),
    }
    arrays = {prefix + name: _numbers(name, getattr(policy, name)) for name in array_names}
    header |= {name: labels.to_json(getattr(policy, name)) for name in scalars}
    if getattr(policy, COSTS, None) is not None:
        arrays[prefix + COSTS] = _numbers(COSTS, policy.costs)
    if getattr(policy, "otherwise", None) is not None:
        header["otherwise"], more = _encoded(policy.otherwise, f"{prefix}otherwise/", omit)
        arrays |= more
    if isinstance(policy, VotingPolicy):
        parts = [_encoded(each, f"{prefix}members/{i}/", omit) for i, each in enumerate(policy.members)]
        header["members"] = [part for part, _ in parts]
        for _, more in parts:
            arrays |= more
    if isinstance(policy, BoostedPolicy):
        header["trees"] = {"n_features": policy.trees.n_features, "binary": policy.trees.binary}
        arrays |= {f"{prefix}trees/{name}": _numbers(name, getattr(policy.trees, name)) for name in TREES}
    model = getattr(policy, "support", None)
    if isinstance(model, KnownSupport):
        header["support"] = "known"
        arrays |= {f"{prefix}support/{name}": getattr(model, name) for name in SETS}
        if model.lines.size:
            arrays[f"{prefix}support/{LINES}"] = _numbers(LINES, model.lines)
    elif model is not None:
        if not omit:
            raise SettingError(
                "the policy's support is a function of yours, which a file cannot hold. Save the rest with "
                "omit_support=True and pass the function again to load_policy(path, support=...)"
            )
        header["support"] = "given"
    return header, arrays


def _omits(header: dict[str, Any]) -> bool:
    inner = [*header.get("members", ()), *([header["otherwise"]] if "otherwise" in header else [])]
    return header.get("support") == "given" or any(map(_omits, inner))


def _names(header: dict[str, Any]) -> tuple[Hashable, ...]:
    return labels.action_names(map(labels.from_json, header["action_names"]))


def _decoded(
    header: dict[str, Any],
    prefix: str,
    arrays: dict[str, np.ndarray],
    given: SupportModel | None,
) -> Policy:
    (kind, array_names, scalars), names = CLASSES[header["kind"]], _names(header)
    fields: dict[str, Any] = {name: _numbers(name, arrays[prefix + name]) for name in array_names}
    fields |= {name: labels.from_json(header[name]) for name in scalars}
    if prefix + COSTS in arrays:
        fields[COSTS] = _numbers(COSTS, arrays[prefix + COSTS])
    if "otherwise" in header:
        fields["otherwise"] = _decoded(header["otherwise"], f"{prefix}otherwise/", arrays, given)
    if issubclass(kind, VotingPolicy):
        members = enumerate(header["members"])
        fields["members"] = tuple(
            _decoded(part, f"{prefix}members/{i}/", arrays, given) for i, part in members
        )
    if issubclass(kind, BoostedPolicy):
        nodes = {name: _numbers(name, arrays[f"{prefix}trees/{name}"]) for name in TREES}
        width = integer("n_features", header["trees"]["n_features"])
        fields["trees"] = Trees(**nodes, n_features=width, binary=header["trees"]["binary"] is True)
    if header.get("support") == "known":
        sets = [arrays[f"{prefix}support/{name}"] for name in SETS]
        lines = arrays.get(f"{prefix}support/{LINES}")
        fields["support"] = KnownSupport(*sets, *([] if lines is None else [_numbers(LINES, lines)]))
    elif header.get("support") == "given":
        fields["support"] = given
    words = [header["method"], *header["notes"]]
    if not all(isinstance(word, str) for word in words):
        raise TypeError("the method and the notes must be texts")
    policy: Policy = kind(names, **fields, method=words[0], notes=tuple(words[1:]))
    _check_parts(policy)
    return policy


def _check_parts(policy: Any) -> None:
    """Refuse parts that do not match: sets, fallback policies, members of a vote, a context listed twice."""
    if isinstance(policy, VotingPolicy) and len({_width(each) for each in policy.members} - {None}) > 1:
        raise ValueError("the policies that vote read other features than each other")
    if isinstance(policy, TablePolicy):
        _ = policy.index  # raises if a context is listed twice
        other, names = policy.otherwise, policy.action_names
        if other and (other.action_names != names or _width(other) not in (_width(policy), None)):
            raise ValueError("the policy for other contexts has other actions or features")
    support = getattr(policy, "support", None)
    if isinstance(support, KnownSupport):
        _ = support.index
        k = len(policy.action_names)
        if (len(support.elsewhere), _width(support)) != (k, _width(policy)):
            raise ValueError(f"supported sets of {len(support.elsewhere)} actions for a policy of {k}")
        if not np.unpackbits(support.sets, axis=1, count=k).any(axis=1).all():
            raise ValueError("a context supports no action")


def _numbers(name: str, array: Any) -> np.ndarray:
    """An array of finite numbers that cannot make scores overflow; checked both ways, so what is saved loads."""
    numbers = np.asarray(array)
    limit = np.finfo(float).max if name == "priority" else LARGEST
    if numbers.dtype.kind not in "iuf" or not (np.abs(numbers.astype(float)) <= limit).all():
        raise SettingError(f"{name} of type {numbers.dtype}; must be finite numbers, none beyond {limit:g}")
    return numbers


def _width(policy: Any) -> int | None:
    """Features of the contexts that a policy reads; None if it reads none."""
    if isinstance(policy, BoostedPolicy):
        return policy.trees.n_features
    if isinstance(policy, VotingPolicy):
        return next((width for width in map(_width, policy.members) if width is not None), None)
    known = getattr(policy, "theta", getattr(policy, "contexts", None))
    return None if known is None else int(known.shape[1])
