"""One vocabulary: the field's words in code, messages, help and pages; every public parameter is documented.

Each test collects all offenders before it fails.
"""

import ast
import dataclasses
import importlib
import inspect
import re
from collections import defaultdict
from pathlib import Path

import typer

import sparing

ROOT = Path(__file__).parents[2]
SOURCE = ROOT / "src"
MODULE_LINES = 800

BANNED = frozenset(
    re.findall(
        r"\w+",
        """
        luck desk desks foresight foreseen foreseeing foresees beside told tells untold taught teaches untaught
        walk walks walked walking blind hope hopes boldness doubt doubts doubted doubting purse caution surprise
        surprises shrunk promise promises twin twins absorb absorbs reservoir sifted narrowed lean focused
        wish wishes wished survey surveys surveying lever levers ingredients cooled believed ledger anyone unasked
        tally dearest worthiest
        """,
    )
)

# Identifiers that are names on disk, on the wire, of a command's option or of a public attribute.
WIRE = {
    "taught": "name of policy.trained_on in 0.1 and key of policy files; option --taught of 0.1",
    "untold": "name of Estimate.unknown in 0.1, and its key in JSON",
    "promise": "name of Learner.guarantee in 0.1",
    "learn_unasked": "option of an experiment in HTTP and in stores",
    "UNASKED": "kind of an outcome in stores",
    "unasked": "kind of an outcome in stores and in HTTP answers",
    "tally": "table of stores",
    "wishes": "name of Features.specs in 0.1",
    "reservoir": "name of LogSummary.context_sample in 0.1",
    "walk": "os.walk and ast.walk of the standard library",
}
# A support desk is the business that the demo simulates.
DEMO = {"desk", "desks"}

# Pages in which a banned word has its own meaning.
PAGES = {
    ("docs/architecture.md", "desk"): "the support desk of the demo",
}
# Names and parameters of 0.1 that warn.
DEPRECATED = {"summarise", "evaluate: taught"}
GENERATED = ("docs/reproduction/", "docs/performance/")

# Names within a message: in backquotes, in quotes, an option, a keyword with its sign, an attribute.
IDENTIFIERS = re.compile(r"`[^`]*`|'\w+'|--[a-z-]+|\w+=|\w+\.\w+")
WORDS = re.compile(r"(?<![A-Za-z])(" + "|".join(sorted(BANNED)) + r")(?![A-Za-z])", re.IGNORECASE)


def modules():
    """Path below src and syntax tree of every module."""
    for path in sorted(SOURCE.rglob("*.py")):
        yield path.relative_to(SOURCE).as_posix(), ast.parse(path.read_text(encoding="utf-8"))


def allowed_in(path, word):
    return word in DEMO and ("/demo" in path or path.endswith("cli/__init__.py"))


def identifiers(tree):
    """Each name that a module defines or uses."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Name):
            yield node.id
        elif isinstance(node, ast.Attribute):
            yield node.attr
        elif isinstance(node, ast.arg | ast.keyword) and node.arg:
            yield node.arg
        elif isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
            yield node.name
        elif isinstance(node, ast.alias):
            yield from (name for name in (node.name, node.asname) if name)


def words_of(name):
    return {part.lower() for part in re.findall(r"[A-Z]+(?![a-z])|[A-Z]?[a-z]+", name)}


def report(offenders):
    """All offenders, one per line: where, and what."""
    lines = sorted(set(offenders))
    return f"{len(lines)} found\n" + "\n".join(lines)


def test_identifiers():
    offenders = [
        f"src/{path}: {name}"
        for path, tree in modules()
        for name in identifiers(tree)
        if name not in WIRE and any(not allowed_in(path, word) for word in words_of(name) & BANNED)
    ]
    assert not offenders, report(offenders)


def docstrings(tree):
    """The constants of a module that stand alone as statements."""
    return {id(node.value) for node in ast.walk(tree) if isinstance(node, ast.Expr)}


def test_messages():
    """No string of more than one word: messages, notes, help. Single words are names on disk or on the wire."""
    offenders = []
    for path, tree in modules():
        skipped = docstrings(tree)
        for node in ast.walk(tree):
            if isinstance(node, ast.Constant) and isinstance(node.value, str) and id(node) not in skipped:
                text = IDENTIFIERS.sub("", node.value)
                if " " in text.strip():
                    offenders += [
                        f"src/{path}:{node.lineno}: {word}: {text.strip()[:90]!r}"
                        for word in WORDS.findall(text)
                        if not allowed_in(path, word.lower())
                    ]
    assert not offenders, report(offenders)


def commands(command, name="sparing"):
    yield name, command
    for below, child in getattr(command, "commands", {}).items():
        yield from commands(child, f"{name} {below}")


def test_help():
    from sparing.cli import app

    offenders = []
    for name, command in commands(typer.main.get_command(app)):
        texts = {"": command.help, " (short)": command.short_help}
        texts |= {f" {option.opts[0]}": getattr(option, "help", None) for option in command.params}
        for place, text in texts.items():
            found = [
                word
                for word in WORDS.findall(text or "")
                if not (word.lower() in DEMO and name in ("sparing", "sparing demo"))
            ]
            offenders += [f"{name}{place}: {word}" for word in found]
    assert not offenders, report(offenders)


def test_pages():
    """Prose only: code, quoted output, identifiers and generated tables of numbers are left out."""
    offenders = []
    for page in [ROOT / "README.md", ROOT / "CONTRIBUTING.md", *sorted((ROOT / "docs").rglob("*.md"))]:
        name = page.relative_to(ROOT).as_posix()
        if name.startswith(GENERATED):
            continue
        text = page.read_text(encoding="utf-8")
        for skipped in (
            r"<!-- numbers.*?<!-- end of numbers -->",
            r"^```.*?^```",
            r"`[^`\n]*`",
            r"\]\([^)]*\)",
            r"<[^>]*>",
        ):
            flags = re.DOTALL | re.MULTILINE
            text = re.sub(skipped, lambda found: "\n" * found[0].count("\n"), text, flags=flags)
        for number, line in enumerate(text.splitlines(), start=1):
            offenders += [
                f"{name}:{number}: {word}"
                for word in WORDS.findall(line)
                if (name, word.lower()) not in PAGES
            ]
    assert not offenders, report(offenders)


def test_a_class_name_is_defined_once():
    homes = defaultdict(list)
    for path, tree in modules():
        for node in ast.walk(tree):
            if isinstance(node, ast.ClassDef):
                homes[node.name].append(path)
    offenders = [f"{name}: {', '.join(paths)}" for name, paths in homes.items() if len(paths) > 1]
    assert not offenders, report(offenders)


def test_modules_are_not_too_long():
    sizes = {path: len(path.read_text(encoding="utf-8").splitlines()) for path in SOURCE.rglob("*.py")}
    offenders = [f"{path.relative_to(SOURCE)}: {n}" for path, n in sizes.items() if n > MODULE_LINES]
    assert not offenders, report(offenders)


def documented(text):
    """The names in the sections Parameters and Attributes of a numpydoc docstring."""
    names = set()
    for section in re.findall(
        r"^(?:Parameters|Attributes)\n-{4,}\n(.*?)(?=^\S[^\n]*\n-{4,}|\Z)", text, re.M | re.S
    ):
        for line in re.findall(r"^(\S[^:\n]*)(?: :.*)?$", section, re.M):
            names |= {name.strip().lstrip("*") for name in line.split(",")}
    return names


def undocumented(name, function, texts):
    """Parameters that none of the docstrings document."""
    try:
        parameters = inspect.signature(function).parameters
    except (TypeError, ValueError):
        return []
    known = set().union(*(documented(inspect.cleandoc(text or "")) for text in texts))
    extra = known - set(parameters)  # keywords of `**settings` may be documented one by one
    return [
        f"{name}: {each}"
        for each, parameter in parameters.items()
        if each not in known
        and each not in ("self", "cls")
        and not each.startswith("_")
        and f"{name}: {each}" not in DEPRECATED
        and parameter.kind is not parameter.VAR_POSITIONAL
        and not (parameter.kind is parameter.VAR_KEYWORD and (extra or "args" in parameters))
    ]


def public():
    """Every public function and class, also those of public modules, by its name."""
    for name in sparing.__all__:
        value = getattr(sparing, name)
        if name in DEPRECATED:
            continue
        if inspect.ismodule(value):
            for below in getattr(value, "__all__", ()):
                yield f"{name}.{below}", getattr(value, below)
        else:
            yield name, value


def of_class(name, kind):
    """Undocumented parameters of a class: its constructor and public methods; fields of results have comments."""
    if issubclass(kind, BaseException):
        return
    constructor = vars(kind).get("__init__")
    if constructor and not dataclasses.is_dataclass(kind) and not hasattr(kind, "_fields"):
        yield from undocumented(name, kind, (kind.__doc__, constructor.__doc__))
    for below, member in vars(kind).items():
        function = member.__func__ if isinstance(member, classmethod | staticmethod) else member
        home = getattr(function, "__module__", "") or ""
        if inspect.isfunction(function) and not below.startswith("_") and home.startswith("sparing"):
            yield from undocumented(f"{name}.{below}", function, (function.__doc__,))


def test_every_public_parameter_is_documented():
    offenders = []
    for name, value in public():
        if inspect.isclass(value):
            offenders += of_class(name, value)
        elif inspect.isfunction(value):
            offenders += undocumented(name, value, (value.__doc__,))
    assert not offenders, report(offenders)


def test_public_names_load_from_their_homes():
    """The names that warn in this release are not public names, and lead to one."""
    renamed = importlib.import_module("sparing")._RENAMED
    assert not set(renamed) & set(sparing.__all__)
    assert set(renamed.values()) <= set(sparing.__all__)
