"""Errors and warnings. A message names the value it got, the values that are allowed, and what to do."""

import importlib
from types import ModuleType


class SparingError(Exception):
    """Base class of all errors that sparing raises."""


class InputError(SparingError, ValueError):
    """An argument does not fit; nothing was changed."""


class LogError(InputError):
    """A log, or a table to be read as one, is invalid."""


class SettingError(InputError):
    """A setting is out of range, or a required setting is missing."""


class DecisionError(InputError):
    """A context, an eligible set, a decision or a reward does not fit the learner."""


class FileError(SparingError):
    """A saved file is truncated, edited, of another kind, or newer than this version."""


class KindError(FileError):
    """A saved file is valid, but of another kind than expected.

    Attributes
    ----------
    kind : object
        The kind of the file.
    """

    def __init__(self, message: str, kind: object) -> None:
        super().__init__(message)
        self.kind = kind


class DataError(SparingError):
    """A data set could not be loaded."""


class MissingExtraError(SparingError, ImportError):
    """An optional dependency is not installed."""


class EngineError(SparingError):
    """An engine failed: workers were lost, or a cluster does not answer."""


class StoppedError(SparingError):
    """A long computation was interrupted; finished parts are kept, and the message names the place."""


class LogWarning(UserWarning):
    """A log can be read, but a column, or rows that repeat, would mislead what is computed from it."""


class UnitWarning(UserWarning):
    """A setting or a feature has another magnitude than the log's rewards and features suggest."""


class SpellingWarning(UserWarning):
    """A live value differs from one of the log only in case or spaces."""


def require(module: str, *, extra: str, purpose: str) -> ModuleType:
    """Import an optional module, or raise an error that names the extra to install."""
    try:
        return importlib.import_module(module)
    except ImportError as error:
        package = module.partition(".")[0]
        raise MissingExtraError(
            f"{purpose} needs {package}, which is not installed. Run: pip install 'sparing[{extra}]'"
        ) from error
