"""The site's reference, made from the code itself: a page for each public name and for each command."""

import re
from collections.abc import Iterator
from html import escape
from importlib import import_module
from pathlib import Path
from typing import Any

import typer.main

import sparing
from sparing.cli import app

PACKAGES = {
    "log": "Logs",
    "features": "Features",
    "auditing": "Audit",
    "evaluation": "Evaluation",
    "learning": "Learning from the log",
    "policies": "Policies",
    "online": "Learners",
    "planning": "Planning",
    "asking": "Asking before going live",
    "model": "What rows teach",
    "simulation": "Simulation",
    "engines": "Engines",
    "service": "Service",
    "plugins": "Other tools",
    "sklearn": "Other tools",
    "report": "Notebooks",
    "errors": "Errors",
}
"""The packages whose names are public, in the reader's order."""

EXTRA_NAMES = {
    "Client": "sparing.service.client",
    "convert": "sparing.log",
    "PolicyClassifier": "sparing.sklearn",
    "RoutingStrategy": "sparing.plugins.litellm",
}
"""What is documented, but not loaded by `import sparing`: a name and its home."""


def pages() -> dict[str, str]:
    """Every page of the reference: its path and its text."""
    found = {f"reference/{_path(name)}": _name_page(name, home) for name, home in _names().items()}
    found |= {f"reference/commands/{_file(name)}.md": _command_page(name, one) for name, one in _commands()}
    return found | {"reference/index.md": _index()}


def navigation() -> list[Any]:
    """The pages under their packages, as the site's navigation wants them."""
    names: dict[str, list[Any]] = {title: [] for title in PACKAGES.values()}
    for name, home in sorted(_names().items()):
        names[PACKAGES[_package(name, home)]].append({_shown(name, home): f"reference/{_path(name)}"})
    commands = [{f"sparing {name}": f"reference/commands/{_file(name)}.md"} for name, _ in _commands()]
    return ["reference/index.md", {"Commands": commands}, *({title: below} for title, below in names.items())]


def _names() -> dict[str, str]:
    """Every public name and the module that it comes from."""
    lines = Path(sparing.__file__).with_suffix(".pyi").read_text(encoding="utf-8").splitlines()
    found = {words[3]: words[1] for words in map(str.split, lines) if words[:1] == ["from"]}
    return found | EXTRA_NAMES


def _package(name: str, home: str) -> str:
    packages = [package for package in f"{home}.{name}".split(".") if package in PACKAGES]
    return packages[-1] if packages[-1] == "features" else packages[0]


def _path(name: str) -> str:
    """Types apart, since some file systems hold `Audit` and `audit` for one."""
    return f"types/{name}.md" if name[0].isupper() else f"{name}.md"


def _shown(name: str, home: str) -> str:
    return f"{home}.{name}" if name in EXTRA_NAMES else f"sparing.{name}"


def _name_page(name: str, home: str) -> str:
    shown = _shown(name, home)
    return f"---\ntitle: {shown}\n---\n\n::: {shown}\n"


def _index() -> str:
    lines = [
        "# Reference",
        "",
        "Made from the code: every command, and every name that `import sparing` gives.",
        "",
    ]
    lines += ["## Commands", "", "| command | what for |", "|---|---|"]
    lines += [
        f"| [`sparing {name}`](commands/{_file(name)}.md) | {_first(one.help or '')} |"
        for name, one in _commands()
    ]
    packages: dict[str, list[str]] = {title: [] for title in PACKAGES.values()}
    for name, home in sorted(_names().items()):
        packages[PACKAGES[_package(name, home)]].append(
            f"| [`{_shown(name, home)}`]({_path(name)}) | {_first(_docstring(name, home))} |"
        )
    for title, rows in packages.items():
        lines += ["", f"## {title}", "", "| name | what it is |", "|---|---|", *rows]
    return "\n".join(lines) + "\n"


def _docstring(name: str, home: str) -> str:
    parent = import_module(home)
    value = getattr(parent, name, None) or import_module(f"{home}.{name}")
    return value.__doc__ or ""


def _first(text: str) -> str:
    """The first sentence, for a cell of a table."""
    paragraph = " ".join(text.strip().split("\n\n")[0].split())
    return re.split(r"(?<=[.!?]) ", paragraph)[0].replace("|", "\\|")


def _commands() -> Iterator[tuple[str, Any]]:
    """Every command that does something, with the words that call it."""
    yield from _below("", typer.main.get_command(app))


def _below(words: str, command: Any) -> Iterator[tuple[str, Any]]:
    if not hasattr(command, "commands"):
        yield words.strip(), command
        return
    for name, one in command.commands.items():
        yield from _below(f"{words} {name}", one)


def _file(name: str) -> str:
    return name.replace(" ", "-")


def _command_page(name: str, command: Any) -> str:
    context = command.make_context(name, [], resilient_parsing=True)
    paragraphs = [" ".join(part.split()) for part in (command.help or "").split("\n\n")]
    words = [part for part in paragraphs if not part.startswith("Example: ")]
    examples = [part.removeprefix("Example: ") for part in paragraphs if part.startswith("Example: ")]
    arguments = [one for one in command.params if one.param_type_name == "argument"]
    options = [one for one in command.params if one.param_type_name == "option"]
    usage = " ".join(["sparing", name, "[OPTIONS]", *(one.name.upper() for one in arguments)])
    lines = [f"# sparing {name}", "", "\n\n".join(words), "", "```sh", usage, "```", ""]
    for example in examples:
        lines += ["For example:", "", "```sh", example, "```", ""]
    for title, given in (("Arguments", arguments), ("Options", options)):
        rows = [record for one in given if (record := _parameter(one, context)) is not None]
        if rows:
            lines += [f"## {title}", "", "| given | what it says |", "|---|---|", *rows, ""]
    return "\n".join(lines)


def _parameter(one: Any, context: Any) -> str | None:
    record = one.get_help_record(context)
    if record is None:
        return None
    names, description = (" ".join(str(part).split()).replace("|", "\\|") for part in record)
    return f"| `{names}` | {escape(description)} |"
