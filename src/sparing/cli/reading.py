"""Options that say how to read a log, the same for every command."""

import contextlib
from collections.abc import Hashable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

if TYPE_CHECKING:
    from sparing.log import Log
    from sparing.policies.policy import Policy

LogPath = Annotated[Path, typer.Argument(help="The log: Parquet, CSV, Arrow, or a peer's format.")]
Contexts = Annotated[str, typer.Option(help="Context columns, with commas; default: x_0, x_1, …")]
Action = Annotated[str, typer.Option(help="The action column.")]
Reward = Annotated[str, typer.Option(help="The reward column.")]
Propensity = Annotated[str, typer.Option(help="The column of the logged action's probability.")]
Distribution = Annotated[str, typer.Option(help="Prefix of the probability columns.")]
Eligible = Annotated[str, typer.Option(help="The column of eligible sets.")]
ContextId = Annotated[str, typer.Option(help="The column that says which context a row is.")]
Actions = Annotated[str, typer.Option(help="All actions, with commas, logged or not.")]
Estimate = Annotated[
    bool,
    typer.Option("--estimate-support", help="Estimate propensities and support where they were not logged."),
]
AsJson = Annotated[bool, typer.Option("--json", help="Print JSON instead of a table.")]


def read(
    path: Path,
    *,
    contexts: str = "",
    action: str = "action",
    reward: str = "reward",
    propensity: str = "propensity",
    distribution: str = "p_",
    eligible: str = "eligible",
    context_id: str = "context_id",
    actions: str = "",
    estimate_support: bool = False,
) -> "Log":
    """Read a log as a command's options say, and estimate its support if asked to and it is unknown."""
    from sparing.log import read_log

    with utf8_name(path):
        log = read_log(
            path,
            contexts=words(contexts) or None,
            action=action,
            reward=reward,
            propensity=propensity,
            distribution=distribution,
            eligible=eligible,
            context_id=context_id,
            actions=labels(path, action, words(actions)) or None,
        )
    if not estimate_support or log.support.known:
        return log
    from sparing.auditing import estimate_support as estimate
    from sparing.cli import terminal

    terminal.say("sparing: support was not logged; it is estimated, and so is everything that rests on it")
    return estimate(log)[0]


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
    from sparing.log.parsing import WHOLE_NUMBER
    from sparing.log.table import open_source

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
    from sparing.errors import FileError, SettingError
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
    except FileError as error:
        if "holds a sparing learner" not in str(error):
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
    from sparing.log.parsing import WHOLE_NUMBER, number

    if WHOLE_NUMBER.fullmatch(text):
        return int(text)
    try:
        return number(text)
    except ValueError:
        return text
