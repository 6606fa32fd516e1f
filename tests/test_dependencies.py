"""What we import is declared, what is declared is locked, and what is locked is known by its hash."""

import ast
import functools
import re
import sys
import tomllib
from pathlib import Path

import pytest

from research.environments import PEERS

HOUSE = Path(__file__).parents[1]
SOURCE = HOUSE / "src" / "sparing"
PROJECT = tomllib.loads((HOUSE / "pyproject.toml").read_text(encoding="utf-8"))["project"]
LOCK = (HOUSE / "requirements.lock").read_text(encoding="utf-8")
LOCKED = re.findall(r"^([\w.-]+)==(\S+)((?:.*\\\n)*.*)", LOCK, re.MULTILINE)
BY_NAME = {"PIL": "pillow", "mlflow": "mlflow-skinny", "sklearn": "scikit-learn"}
"""Distributions that are not called as their module."""

OPTIONAL = {"threadpoolctl": "SciPy's threads are limited where it is there, and left alone where it is not"}
"""Modules that are tried and done without."""


PLUGGED = {"uvicorn": {"uvloop", "httptools"}}
"""Modules that another one uses where they are there."""


BROUGHT = {"learn": {"threadpoolctl"}}
"""Modules that come with what an extra names."""


APART = {"mlflow"}
"""Extras whose packages exclude a locked version: neither in `all` nor in the lock, tested in an environment of their own."""


def normal(name):
    return re.sub(r"[-_.]+", "-", name).lower()


def names(requirements):
    return {normal(re.match(r"[\w.-]+", text)[0]) for text in requirements}


@functools.cache
def imported(path):
    """The foreign packages that a file imports, `require` and strings to `import_module` included."""
    return set(_imported(path))


def _imported(path):
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Import):
            found = [alias.name for alias in node.names]
        elif isinstance(node, ast.ImportFrom):
            found = [] if node.level else [node.module]
        elif isinstance(node, ast.Call) and ast.unparse(node.func).endswith(("require", "import_module")):
            found = [part.value for part in node.args[:1] if isinstance(part, ast.Constant)]
        else:
            continue
        for name in found:
            top = name.partition(".")[0]
            if top not in sys.stdlib_module_names and top != "sparing":
                yield BY_NAME.get(top, top)


def declared():
    extras = PROJECT["optional-dependencies"]
    return names(PROJECT["dependencies"]) | {name for extra in extras.values() for name in names(extra)}


def test_every_import_is_declared():
    peers = names(peer.pin for peer in PEERS)  # they run in environments of their own
    for path in SOURCE.rglob("*.py"):
        allowed = declared() | (peers if path.parent.name == "peers" else set()) | OPTIONAL.keys()
        unknown = {normal(name) for name in imported(path)} - allowed
        assert not unknown, (
            f"{path.relative_to(HOUSE)} imports {unknown}, which pyproject.toml does not declare"
        )


def test_a_core_import_is_a_core_dependency():
    """What is imported at the top of a file comes with the core install, or with the extra that the room is."""
    always = names(PROJECT["dependencies"])
    for path in SOURCE.rglob("*.py"):
        room = path.relative_to(SOURCE).parts[0]
        core = always | names(PROJECT["optional-dependencies"].get(room, []))
        tree = ast.parse(path.read_text(encoding="utf-8"))
        top = ast.Module([node for node in tree.body if isinstance(node, ast.Import | ast.ImportFrom)], [])
        for node in top.body:
            module = node.names[0].name if isinstance(node, ast.Import) else node.module
            package = module.partition(".")[0]
            if package not in sys.stdlib_module_names and package != "sparing":
                assert normal(BY_NAME.get(package, package)) in core, f"{path.relative_to(HOUSE)}: {package}"


@pytest.mark.parametrize("extra", PROJECT["optional-dependencies"])
def test_an_extra_has_code_behind_it(extra):
    """An extra that nothing asks for would promise what is not there; `dev` is for the tests and tools."""
    used = {normal(name) for path in SOURCE.rglob("*.py") for name in imported(path)}
    used |= {name for host, plugged in PLUGGED.items() if host in used for name in plugged}
    assert extra == "dev" or names(PROJECT["optional-dependencies"][extra]) <= used | {"sparing"}


def test_the_extra_of_all_holds_every_other():
    extras = PROJECT["optional-dependencies"]
    assert set(re.findall(r"\w+", extras["all"][0])) - {"sparing"} == extras.keys() - {"all", "dev"} - APART


def test_an_error_names_an_extra_that_brings_the_module():
    """`require` tells people what to install: the extra must be there, and hold what is asked for."""
    for path in (*SOURCE.rglob("*.py"), *(HOUSE / "research").rglob("*.py")):
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if not (isinstance(node, ast.Call) and ast.unparse(node.func) == "require"):
                continue
            extra = next(each.value.value for each in node.keywords if each.arg == "extra")
            held = names(PROJECT["optional-dependencies"][extra]) | BROUGHT.get(extra, set())
            module = node.args[0]
            if isinstance(module, ast.Constant):
                top = module.value.partition(".")[0]
                assert normal(BY_NAME.get(top, top)) in held, f"{path.relative_to(HOUSE)}: {module.value}"


def test_everything_declared_is_locked():
    locked = {normal(name) for name, _, _ in LOCKED}
    extras = PROJECT["optional-dependencies"]
    apart = {name for extra in APART for name in names(extras[extra])}
    assert declared() - {"sparing"} - apart | {"hatchling", "editables"} <= locked


def test_every_locked_version_has_the_hashes_of_its_files():
    """A wheel alone would do on one kind of machine only; pure packages have a wheel and a source archive."""
    assert len(LOCKED) > 50
    for name, version, rest in LOCKED:
        hashes = re.findall(r"--hash=sha256:[0-9a-f]{64}\b", rest)
        assert hashes, f"{name}=={version} has no hash"
        assert len(set(hashes)) == len(hashes)
    assert sum(len(re.findall("--hash", rest)) > 1 for *_, rest in LOCKED) > 0.9 * len(LOCKED)


def test_the_lock_names_no_place():
    assert not re.search(r"https?:|file:|--index|--extra-index|--find-links|(^|\s)/", LOCK, re.MULTILINE)


def test_the_install_insists_on_hashes():
    makefile = (HOUSE / "Makefile").read_text(encoding="utf-8")
    assert "--require-hashes -r requirements.lock" in makefile
    assert "--generate-hashes" in makefile
