"""Options that commands share, declared once, and the log that they tell how to read."""

import contextlib
import functools
import inspect
from collections.abc import Callable, Hashable, Iterator
from dataclasses import dataclass, fields
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from sparing.log.columns import Columns

if TYPE_CHECKING:
    from sparing.log import Log
    from sparing.policies.policy import Policy

AsJson = Annotated[bool, typer.Option("--json", help="Print JSON instead of a table.")]
LogPath = Annotated[Path, typer.Argument(help="The log: Parquet, CSV, Arrow, or a peer's format.")]
RewardRange = Annotated[
    str, typer.Option(help="Least and largest mean reward, as LOW,HIGH; default: the range seen.")
]
Estimate = Annotated[
    bool,
    typer.Option("--estimate-support", help="Estimate propensities and support where they were not logged."),
]


@dataclass(frozen=True)
class GivenLog:
    """A log as a command's options describe it; `options` are those of the columns that were asked for."""

    path: Path
    options: dict[str, Any]

    def read(self) -> "Log":
        """Read it, and estimate its support if asked to and it is unknown."""
        from sparing.log.formats import read_log

        given = dict(self.options)
        estimated, contexts = given.pop("estimate_support", False), words(given.pop("contexts"))
        actions = labels(self.path, given["action"], words(given.pop("actions")))
        with utf8_name(self.path):
            log = read_log(self.path, contexts=contexts or None, actions=actions or None, **given)
        if not estimated or log.support.known:
            return log
        from sparing.auditing import estimate_support
        from sparing.cli import terminal

        terminal.say(
            "sparing: support was not logged; it is estimated, and so is everything that rests on it"
        )
        return estimate_support(log)[0]


def reads_log(*names: str, estimates: bool = False) -> Callable[[Callable[..., None]], Callable[..., None]]:
    """Give a command the options that say how to read its `log`, which it gets as a `GivenLog`.

    `names` are the roles of columns that matter to it, by default all; `estimates`: whether it can also be
    told to estimate the support.
    """
    shared = {role.name: (role.default or "", role.metadata["help"]) for role in fields(Columns)}
    shared = {name: shared[name] for name in names or shared}
    shared["actions"] = ("", "All actions, with commas, logged or not.")
    keyword = inspect.Parameter.KEYWORD_ONLY
    options = [
        inspect.Parameter(name, keyword, default=default, annotation=Annotated[str, typer.Option(help=said)])
        for name, (default, said) in shared.items()
    ]
    if estimates:
        options.append(inspect.Parameter("estimate_support", keyword, default=False, annotation=Estimate))

    def add_options(command: Callable[..., None]) -> Callable[..., None]:
        @functools.wraps(command)
        def run(log: Path, **given: Any) -> None:
            reading = {option.name: given.pop(option.name) for option in options}
            command(GivenLog(log, reading), **given)

        signature = inspect.signature(command)
        path, *own = signature.parameters.values()
        own = [each.replace(kind=keyword) for each in own]
        parameters = [path.replace(annotation=LogPath), *own, *options]
        run.__signature__ = signature.replace(parameters=parameters)  # type: ignore[attr-defined]
        run.__annotations__ = {each.name: each.annotation for each in parameters}
        return run

    return add_options


@contextlib.contextmanager
def utf8_name(*paths: Path) -> Iterator[None]:
    """Explain what goes wrong with a file whose name is no text: Arrow opens and makes none by that name."""
    from sparing.errors import FileError

    try:
        yield
    except UnicodeEncodeError:
        odd = [path for path in paths if str(path) != str(path).encode(errors="replace").decode()]
        if not odd:
            raise
        raise FileError(f"the name of {odd[0]} is not UTF-8, which tables need. Rename the file") from None


def words(text: str) -> list[str]:
    """The parts of a list written with commas."""
    return [part.strip() for part in text.split(",") if part.strip()]


def labels(path: Path, column: str, texts: list[str]) -> list[Hashable]:
    """Labels typed at a prompt, as values of the action column's type; in a text file, whole numbers if all are."""
    import pyarrow as pa

    from sparing.errors import LogError
    from sparing.log.blocks import open_source
    from sparing.log.labels import WHOLE_NUMBER

    if not texts:
        return []
    whole = all(map(WHOLE_NUMBER.fullmatch, texts))
    try:
        source = open_source(path)
    except LogError:  # not a table: reading the log will say so, or read another format
        return list(texts)
    if column in source.schema.names and not source.text:
        kind = source.schema.field(column).type
        kind = kind.value_type if pa.types.is_dictionary(kind) else kind
        whole = whole and pa.types.is_integer(kind)
    return [int(text) for text in texts] if whole else list(texts)


def pair(text: str) -> tuple[float, float] | None:
    """LOW,HIGH as two numbers."""
    from sparing.errors import SettingError

    if not text:
        return None
    try:
        low, high = (float(part) for part in words(text))
    except ValueError:
        raise SettingError(f"--reward-range {text!r}; expected two numbers LOW,HIGH, such as 0,1") from None
    return low, high


def label_among(text: str, names: tuple[Hashable, ...]) -> Hashable:
    """The label that a word on the command line means."""
    from sparing.errors import SettingError
    from sparing.log.labels import as_text

    for name in names:
        if as_text(name) == text:
            return name
    raise SettingError(f"unknown action {text!r}; the log has {', '.join(map(str, names[:12]))}")


def read_policy(word: str, log: "Log") -> "Policy":
    """A policy by name (`uniform`, `action:LABEL`) or from a file that holds a policy or a learner."""
    from sparing.errors import KindError, SettingError
    from sparing.online.saving import KIND as LEARNER
    from sparing.online.saving import load
    from sparing.policies.policy import ConstantPolicy, UniformPolicy
    from sparing.policies.saving import load_policy

    if word == "uniform":
        return UniformPolicy(log.action_names)
    if word.startswith("action:"):
        return ConstantPolicy(log.action_names, label_among(word.removeprefix("action:"), log.action_names))
    if not Path(word).exists():
        raise SettingError(
            f"policy {word!r}; expected `uniform`, `action:LABEL`, or a file made by `sparing learn` or Learner.save"
        )
    try:
        return load_policy(word)
    except KindError as error:
        if error.kind != LEARNER:
            raise
    return load(word).policy()


def settings(parts: list[str]) -> dict[str, Any]:
    """Settings written as NAME=VALUE: numbers where they read as such, tuples where there are commas."""
    from sparing.errors import SettingError

    found: dict[str, Any] = {}
    for word in parts:
        name, equals, value = word.partition("=")
        if not equals or not name:
            raise SettingError(f"--option {word!r}; expected NAME=VALUE, such as ridge=0.1")
        found[name.replace("-", "_")] = _value(value)
    return found


def _value(text: str) -> Any:
    parts = text.split(",")
    if len(parts) > 1:
        return tuple(_value(part) for part in parts)
    from sparing.log.labels import WHOLE_NUMBER, number

    if WHOLE_NUMBER.fullmatch(text):
        return int(text)
    try:
        return number(text)
    except ValueError:
        return text
