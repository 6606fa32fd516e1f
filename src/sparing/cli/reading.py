"""Options that say how to read a log, the same for every command."""

from collections.abc import Hashable
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

if TYPE_CHECKING:
    from sparing.log import Log
    from sparing.offline.policy import Policy

LogPath = Annotated[Path, typer.Argument(help="The log: Parquet, CSV, Arrow, or a peer's format.")]
Contexts = Annotated[str, typer.Option(help="Context columns, with commas; default: x_0, x_1, …")]
Action = Annotated[str, typer.Option(help="The action column.")]
Reward = Annotated[str, typer.Option(help="The reward column.")]
Propensity = Annotated[str, typer.Option(help="The column of the logged action's probability.")]
ContextId = Annotated[str, typer.Option(help="The column that says which context a row is.")]
Actions = Annotated[str, typer.Option(help="All actions, with commas, logged or not.")]
AsJson = Annotated[bool, typer.Option("--json", help="Print JSON instead of a table.")]


def read(
    path: Path,
    *,
    contexts: str = "",
    action: str = "action",
    reward: str = "reward",
    propensity: str = "propensity",
    context_id: str = "context_id",
    actions: str = "",
) -> "Log":
    """Read a log as a command's options say."""
    from sparing.log import read_log

    return read_log(
        path,
        contexts=words(contexts) or None,
        action=action,
        reward=reward,
        propensity=propensity,
        context_id=context_id,
        actions=labels(actions) or None,
    )


def words(text: str) -> list[str]:
    """The parts of a list written with commas."""
    return [part.strip() for part in text.split(",") if part.strip()]


def labels(text: str) -> list[Hashable]:
    """Action labels written with commas: whole numbers if all of them are."""
    from sparing.log.table import WHOLE_NUMBER

    parts = words(text)
    return [int(part) for part in parts] if all(map(WHOLE_NUMBER.fullmatch, parts)) else list(parts)


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
    from sparing.offline.learning import load_policy
    from sparing.offline.policy import ConstantPolicy, UniformPolicy
    from sparing.online.saving import load

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
    for kind in (int, float):
        try:
            return kind(text)
        except ValueError:
            continue
    return text
