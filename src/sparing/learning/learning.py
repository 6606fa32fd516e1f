"""One door to all offline learners."""

import difflib
import inspect
from collections.abc import Callable
from typing import Any

from sparing.errors import SettingError
from sparing.learning.direct import opr_dlm
from sparing.learning.linear import greedy, pessimistic
from sparing.learning.material import Progress, Request
from sparing.learning.smooth import caipwl, extrapolation, norm_poem, opr, poem
from sparing.learning.tabular import pi_plus_policy
from sparing.log import Log
from sparing.policies.policy import Policy

METHODS: dict[str, Callable[..., Policy]] = {
    "greedy": greedy,
    "pessimistic": pessimistic,
    "pi-plus": pi_plus_policy,
    "opr": opr,
    "opr-dlm": opr_dlm,
    "extrapolation": extrapolation,
    "poem": poem,
    "norm-poem": norm_poem,
    "caipwl": caipwl,
}
"""Offline learners by name; each takes a `Request` and the options of its own."""

SHARED = ("support", "reward_range", "folds")


def learn(
    log: Log,
    method: str,
    *,
    seed: int = 0,
    progress: Callable[[int, int], None] | None = None,
    **options: Any,
) -> Policy:
    """Learn a policy from a log alone, by one of METHODS.

    Every method takes `support` (what a context supports: a function (n, d) → booleans (n, K), a policy
    whose positive probabilities count, or labels), `reward_range` (bounds on mean rewards) and `folds`.
    The rest are the method's own. A hyper-parameter that is not given is chosen on held-out contexts by
    the support-aware lower limit; the policy's `notes` say which. `progress(done, total)` is called on
    the way.
    """
    if method not in METHODS:
        close = difflib.get_close_matches(str(method), METHODS, n=1)
        hint = f" Did you mean {close[0]!r}?" if close else ""
        raise SettingError(f"method={method!r}; must be one of {', '.join(METHODS)}.{hint}")
    learner = METHODS[method]
    own = list(inspect.signature(learner).parameters)[1:]
    unknown = [name for name in options if name not in (*SHARED, *own)]
    if unknown:
        raise SettingError(
            f"method {method!r} has no option {unknown[0]!r}; it takes {', '.join((*SHARED, *own))}"
        )
    shared = {name: options.pop(name) for name in SHARED if name in options}
    steps = Progress(progress)
    policy = learner(Request(log, seed, progress=steps, **shared), **options)
    steps.step()
    return policy
