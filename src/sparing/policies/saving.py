"""Policies on disk: one archive of arrays and JSON."""

import os
from collections.abc import Hashable
from typing import Any

import numpy as np

from sparing import archive
from sparing.errors import FileError, SettingError
from sparing.log import labels
from sparing.policies.policy import (
    LARGEST,
    ConstantPolicy,
    GreedyPolicy,
    PessimisticPolicy,
    Policy,
    SoftmaxPolicy,
    SupportModel,
    UniformPolicy,
)
from sparing.policies.tables import KnownSupport, TablePolicy, support_function

KIND = "sparing policy"
VERSION = 1

ARRAYS: dict[type, tuple[str, ...]] = {
    GreedyPolicy: ("theta", "priority"),
    SoftmaxPolicy: ("theta",),
    PessimisticPolicy: ("theta", "inverse", "radius", "priority"),
    TablePolicy: ("contexts", "table"),
    UniformPolicy: (),
    ConstantPolicy: (),
}
"""The arrays of each kind of policy; its other fields go into the header."""

NOT_WHOLE = (
    KeyError,
    TypeError,
    ValueError,
    IndexError,
    AttributeError,
    OverflowError,
    RecursionError,
)
"""What reading a forged header or array may raise."""

CLASSES = {kind.__name__: kind for kind in ARRAYS}
SETS = ("contexts", "sets", "elsewhere")


def save_policy(policy: Policy, path: str | os.PathLike[str], *, omit_support: bool = False) -> None:
    """Write a policy so that `load_policy` gives an equal one back, bit for bit.

    A support function of the caller's own cannot be written. With `omit_support` the rest is, and
    `load_policy` asks for the function again.
    """
    header, arrays = _encoded(policy, "", omit_support)
    archive.write(path, KIND, VERSION, {"policy": header}, arrays)


def load_policy(path: str | os.PathLike[str], *, support: Any = None) -> Policy:
    """Read a policy that `save_policy` wrote; `support` stands in for a support function left out of it."""
    try:
        header, arrays = archive.read(path, KIND, VERSION)
        saved = header["policy"]
        omitted, names = _omits(saved), _names(saved)
    except NOT_WHOLE as error:
        raise FileError(f"{path} does not hold a whole policy: {error!r}") from None
    if omitted and support is None:
        raise FileError(
            f"{path} holds a policy whose support is a function that was not saved. Pass it again: "
            "load_policy(path, support=...)"
        )
    if support is not None and not omitted:
        raise SettingError(f"{path} holds a policy that is whole without support=...; leave it out")
    given = support_function(support, names) if omitted else None
    try:
        return _decoded(saved, "", arrays, given)
    except NOT_WHOLE as error:
        raise FileError(f"{path} does not hold a whole policy: {error!r}") from None


def _encoded(policy: Any, prefix: str, omit: bool) -> tuple[dict[str, Any], dict[str, np.ndarray]]:
    kind = type(policy)
    if kind not in ARRAYS:
        raise SettingError(
            f"a {kind.__name__} cannot be saved; these can: {', '.join(CLASSES)}. Tabulate it with "
            "policy_from_table"
        )
    header: dict[str, Any] = {
        "kind": kind.__name__,
        "action_names": [labels.to_json(name) for name in policy.action_names],
        "method": policy.method,
        "notes": list(policy.notes),
    }
    arrays = {prefix + name: _numbers(name, getattr(policy, name)) for name in ARRAYS[kind]}
    if kind is SoftmaxPolicy:
        header["temperature"] = policy.temperature
    if kind is ConstantPolicy:
        header["action"] = labels.to_json(policy.action)
    if getattr(policy, "otherwise", None) is not None:
        header["otherwise"], more = _encoded(policy.otherwise, f"{prefix}otherwise/", omit)
        arrays |= more
    model = getattr(policy, "support", None)
    if isinstance(model, KnownSupport):
        header["support"] = "known"
        arrays |= {f"{prefix}support/{name}": getattr(model, name) for name in SETS}
    elif model is not None:
        if not omit:
            raise SettingError(
                "the policy's support is a function of yours, which a file cannot hold. Save the rest with "
                "omit_support=True and pass the function again to load_policy(path, support=...)"
            )
        header["support"] = "given"
    return header, arrays


def _omits(header: dict[str, Any]) -> bool:
    return header.get("support") == "given" or ("otherwise" in header and _omits(header["otherwise"]))


def _names(header: dict[str, Any]) -> tuple[Hashable, ...]:
    return labels.action_names(map(labels.from_json, header["action_names"]))


def _decoded(
    header: dict[str, Any], prefix: str, arrays: dict[str, np.ndarray], given: SupportModel | None
) -> Policy:
    kind, names = CLASSES[header["kind"]], _names(header)
    fields: dict[str, Any] = {name: _numbers(name, arrays[prefix + name]) for name in ARRAYS[kind]}
    width = next((fields[name].shape[1] for name in ("theta", "contexts") if name in fields), None)
    if kind is SoftmaxPolicy:
        fields["temperature"] = header["temperature"]
    if kind is ConstantPolicy:
        fields["action"] = labels.from_json(header["action"])
    if "otherwise" in header:
        fields["otherwise"] = _decoded(header["otherwise"], f"{prefix}otherwise/", arrays, given)
        if fields["otherwise"].action_names != names or _width(fields["otherwise"]) not in (width, None):
            raise ValueError("the policy for other contexts has other actions or features")
    if header.get("support") == "known":
        fields["support"] = _known_support(arrays, f"{prefix}support/", (len(names), width))
    elif header.get("support") == "given":
        fields["support"] = given
    words = [header["method"], *header["notes"]]
    if not all(isinstance(word, str) for word in words):
        raise TypeError("the method and the notes must be texts")
    policy: Policy = kind(names, **fields, method=words[0], notes=tuple(words[1:]))
    if isinstance(policy, TablePolicy):
        _ = policy.index  # refuses a context that is listed twice
    return policy


def _numbers(name: str, array: Any) -> np.ndarray:
    """An array of finite numbers, none of which makes scores overflow: asked on both ways, so what is saved loads."""
    numbers = np.asarray(array)
    limit = np.finfo(float).max if name == "priority" else LARGEST
    if numbers.dtype.kind not in "iuf" or not (np.abs(numbers.astype(float)) <= limit).all():
        raise SettingError(f"{name} of type {numbers.dtype}; must be finite numbers, none beyond {limit:g}")
    return numbers


def _known_support(arrays: dict[str, np.ndarray], prefix: str, shape: tuple[int, int | None]) -> KnownSupport:
    """The saved sets, which must fit the policy's (actions, features) and allow some action everywhere."""
    contexts, sets, elsewhere = (arrays[prefix + name] for name in SETS)
    model = KnownSupport(contexts, sets, elsewhere)
    if sets.dtype != np.uint8 or (len(elsewhere), contexts.shape[1]) != shape:
        raise ValueError(f"supported sets of {len(elsewhere)} actions for a policy of {shape[0]}")
    if not np.unpackbits(sets, axis=1, count=len(elsewhere)).any(axis=1).all():
        raise ValueError("a context supports no action")
    _ = model.index  # refuses a context that is listed twice
    return model


def _width(policy: Any) -> int | None:
    """Features of the contexts that a policy reads; None where it reads none."""
    known = getattr(policy, "theta", getattr(policy, "contexts", None))
    return None if known is None else int(known.shape[1])
