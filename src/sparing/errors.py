"""What can go wrong. Every message says what it got, what it expected, and how to mend it."""

import importlib
from types import ModuleType


class SparingError(Exception):
    """The root of every error that sparing raises on purpose."""


class InputError(SparingError, ValueError):
    """Something handed in does not fit; nothing was changed."""


class LogError(InputError):
    """A log, or a table to be read as one, does not fit."""


class SettingError(InputError):
    """A setting is out of its range, or one that is needed was not given."""


class DecisionError(InputError):
    """A context, an eligible set, a decision or a reward does not fit the learner."""


class FileError(SparingError):
    """A saved file is truncated, edited, of another kind, or newer than this version."""


class KindError(FileError):
    """A saved file is whole, but of another kind than was asked for: of this `kind`."""

    def __init__(self, message: str, kind: object) -> None:
        super().__init__(message)
        self.kind = kind


class DataError(SparingError):
    """A data set could not be had."""


class MissingExtraError(SparingError, ImportError):
    """An optional dependency is not installed."""


class EngineError(SparingError):
    """Work on the parts of a log could not be done: workers were lost, or a cluster does not answer."""


class StoppedError(SparingError):
    """Long work was interrupted; what is finished is kept, and the message says where."""


class UnitWarning(UserWarning):
    """A setting or a feature is of another size than the log's rewards and features suggest."""


def require(module: str, *, extra: str, purpose: str) -> ModuleType:
    """Import an optional module where it is needed, or say which extra brings it."""
    try:
        return importlib.import_module(module)
    except ImportError as error:
        package = module.partition(".")[0]
        raise MissingExtraError(
            f"{purpose} needs {package}, which is not installed. Run: pip install 'sparing[{extra}]'"
        ) from error
