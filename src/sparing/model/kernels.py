"""Kernel features for a log whose rewards are no linear function of its contexts: how many, the evidence says."""

from dataclasses import replace

import numpy as np

from sparing.errors import SettingError
from sparing.log import Log
from sparing.log.features.encoder import KERNEL
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
        return _of_most_evidence(log)
    if isinstance(kernel, Nystroem):
        return _extended(log, kernel)
    if isinstance(kernel, str | bool):
        raise SettingError(f"kernel={kernel!r}; must be 'auto', a number of landmarks such as 128, or 0")
    return _extended(log, Nystroem(kernel)) if kernel else log


def _extended(log: Log, wish: Nystroem) -> Log:
    encoder = fitted_kernel(log.encoder, log.contexts, wish)
    return replace(log, contexts=encoder.completed(log.contexts), encoder=encoder)


def _of_most_evidence(log: Log) -> Log:
    """The log with as many landmarks as its rewards speak for.

    All candidates have the same blocks before the kernel's: the evidence falls with the width of the nearly flat column of W, which is
    set by block, so that the same model in other blocks would differ by as much as a kernel gains.
    """
    own, best, most, last = _linear_blocks(log), log, -np.inf, None
    for landmarks in CHOICES:
        each = _extended(log, Nystroem(landmarks)) if landmarks else log
        sums = Statistics.of(each)
        blocks = blocks_of(sums, [*own, *[KERNEL] * (each.n_features - len(own))])
        last = evidence_of(sums, blocks=blocks, near=last)
        if last.value > most:
            best, most = each, last.value
    return best


def _linear_blocks(log: Log) -> list[str]:
    """The blocks of the log's own features, by name."""
    blocks = blocks_of(Statistics.of(log), None if log.encoder.is_raw else log.encoder.blocks)
    return [blocks.names[block] for block in blocks.of]
