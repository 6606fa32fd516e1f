"""Kernel features for a log whose rewards are no linear function of its contexts: how many, the evidence says."""

from dataclasses import replace

import numpy as np

from sparing.errors import SettingError
from sparing.log import Log
from sparing.log.features.fitting import with_kernel as fitted_kernel
from sparing.log.features.kernel import Nystroem
from sparing.model.prior import blocks_of, evidence_of
from sparing.model.statistics import Statistics

CHOICES = (0, 64, 128)
"""Landmarks that are tried: none, few, many."""


def with_kernel(log: Log, kernel: int | str | Nystroem = "auto") -> Log:
    """The log with Nyström features beside its own: so many landmarks, or (`auto`) as many of `CHOICES` as have the most evidence.

    What comes back knows how to make them: learners and policies taught by it take the same raw columns, or
    the same contexts, as before.
    """
    if log.encoder.kernel is not None:
        raise SettingError("the log has kernel features already; leave kernel out")
    if kernel == "auto":
        candidates = [_extended(log, Nystroem(m)) if m else log for m in CHOICES]
        return candidates[int(np.argmax([_evidence(each) for each in candidates]))]
    if isinstance(kernel, Nystroem):
        return _extended(log, kernel)
    if isinstance(kernel, str | bool):
        raise SettingError(f"kernel={kernel!r}; must be 'auto', a number of landmarks such as 128, or 0")
    return _extended(log, Nystroem(kernel)) if kernel else log


def _extended(log: Log, wish: Nystroem) -> Log:
    encoder = fitted_kernel(log.encoder, log.contexts, wish)
    return replace(log, contexts=encoder.completed(log.contexts), encoder=encoder)


def _evidence(log: Log) -> float:
    """The log evidence of the log's rewards under the prior fitted to it."""
    sums = Statistics.of(log)
    names = None if log.encoder.is_raw else log.encoder.blocks
    return evidence_of(sums, blocks=blocks_of(sums, names))
