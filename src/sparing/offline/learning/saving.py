"""Policies on disk: one archive of arrays and JSON."""

import os
from collections.abc import Hashable
from typing import Any

import numpy as np

from sparing import archive
from sparing.errors import FileError, SettingError
from sparing.log import labels
from sparing.offline.learning.policies import PessimisticPolicy, SoftmaxPolicy, TablePolicy
from sparing.offline.learning.supports import KnownSupport, support_function
from sparing.offline.policy import ConstantPolicy, GreedyPolicy, Policy, SupportModel, UniformPolicy

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
    except (KeyError, TypeError, ValueError, AttributeError) as error:
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
    except (KeyError, TypeError, ValueError, IndexError, AttributeError) as error:
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
    arrays = {prefix + name: getattr(policy, name) for name in ARRAYS[kind]}
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
    return tuple(map(labels.from_json, header["action_names"]))


def _decoded(
    header: dict[str, Any], prefix: str, arrays: dict[str, np.ndarray], given: SupportModel | None
) -> Policy:
    kind = CLASSES[header["kind"]]
    fields: dict[str, Any] = {name: arrays[prefix + name] for name in ARRAYS[kind]}
    if kind is SoftmaxPolicy:
        fields["temperature"] = header["temperature"]
    if kind is ConstantPolicy:
        fields["action"] = labels.from_json(header["action"])
    if "otherwise" in header:
        fields["otherwise"] = _decoded(header["otherwise"], f"{prefix}otherwise/", arrays, given)
    if header.get("support") == "known":
        fields["support"] = KnownSupport(*(arrays[f"{prefix}support/{name}"] for name in SETS))
    elif header.get("support") == "given":
        fields["support"] = given
    policy: Policy = kind(_names(header), **fields, method=header["method"], notes=tuple(header["notes"]))
    return policy
