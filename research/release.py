"""`python -m research release`: one version everywhere, and the date of the changelog's newest section."""

import datetime
import re
from pathlib import Path
from typing import Annotated

import typer

from sparing.archive import replacing
from sparing.cli import terminal
from sparing.errors import SettingError

ROOT = Path(__file__).parents[1]
CHANGELOG, CITATION = "CHANGELOG.md", "CITATION.cff"
PACKAGE, LOCK = "clients/js/package.json", "clients/js/package-lock.json"
MODULE = "src/sparing/__init__.py"
HEADING = re.compile(r"^## (\d+\.\d+\.\d+) \((unreleased|\d{4}-\d{2}-\d{2})\)$", re.MULTILINE)
VERSION = re.compile(r"\d+\.\d+\.\d+")


def release(
    begin: Annotated[str, typer.Option(help="Begin the next version instead, such as 0.4.0.")] = "",
) -> None:
    """Date the newest section of the changelog, and write its version wherever a version is.

    Nothing is committed, tagged or uploaded.

    Example: python -m research release
    """
    if begin:
        begin_version(ROOT, begin)
        terminal.print_status(f"{begin} has begun; changes go into its section of {CHANGELOG}")
        return
    version = finish_version(ROOT, datetime.datetime.now(datetime.UTC).date())
    terminal.print_status(
        f"Version {version}. After `make test` and `make thorough`: git commit -am 'Release {version}', git tag v{version}"
    )


def finish_version(root: Path, today: datetime.date) -> str:
    """Make the newest section of the changelog a release of `today`, and return its version."""
    changelog = _read(root, CHANGELOG)
    sections = HEADING.findall(changelog)
    if not sections or sections[0][1] != "unreleased":
        raise SettingError(
            f"the newest section of {CHANGELOG} is not unreleased. Begin one: python -m research release --begin VERSION"
        )
    version = sections[0][0]
    if len(sections) > 1:
        old, new = (_minor(each) for each in (sections[1][0], version))
        page = f"docs/migrate/{old}-to-{new}.md"
        if old != new and not (root / page).is_file():
            raise SettingError(f"{page} is missing: say there what callers must change from {old} to {new}")
    citation = _read(root, CITATION)
    citation = _once(r"^version: .*$", f"version: {version}", citation, CITATION)
    citation = _once(r"^date-released: .*$", f"date-released: {today}", citation, CITATION)
    dated = changelog.replace(f"## {version} (unreleased)", f"## {version} ({today})", 1)
    _write(root, {CHANGELOG: dated, CITATION: citation, **_versions(root, version, version)})
    return version


def begin_version(root: Path, version: str) -> None:
    """Put a new section above the others of the changelog, and give the code the version that it works towards."""
    changelog = _read(root, CHANGELOG)
    first = HEADING.search(changelog)
    if first is None or first[2] == "unreleased":
        raise SettingError(f"{CHANGELOG} has an unreleased section already; release it first")
    if not VERSION.fullmatch(version) or _numbers(version) <= _numbers(first[1]):
        raise SettingError(f"--begin {version}: expected three numbers above {first[1]}, such as 0.4.0")
    place = first.start()
    begun = f"{changelog[:place]}## {version} (unreleased)\n\n{changelog[place:]}"
    _write(root, {CHANGELOG: begun, **_versions(root, f"{version}.dev0", f"{version}-dev.0")})


def _versions(root: Path, python: str, javascript: str) -> dict[str, str]:
    """The files that state the version of the code, with a new one."""
    found = {MODULE: _once(r'^__version__ = ".*"$', f'__version__ = "{python}"', _read(root, MODULE), MODULE)}
    for name, times in ((PACKAGE, 1), (LOCK, 2)):  # the lock has the package twice, before all others
        text, count = re.subn(
            r'^( +"version": )".*"',
            rf'\g<1>"{javascript}"',
            _read(root, name),
            count=times,
            flags=re.MULTILINE,
        )
        if count != times:
            raise SettingError(f"{name} has no version; expected {times}")
        found[name] = text
    return found


def _once(pattern: str, replacement: str, text: str, name: str) -> str:
    changed, count = re.subn(pattern, replacement, text, flags=re.MULTILINE)
    if count != 1:
        raise SettingError(f"{name} has {count} lines like {pattern!r}; expected one")
    return changed


def _numbers(version: str) -> tuple[int, ...]:
    return tuple(map(int, version.split(".")))


def _minor(version: str) -> str:
    return version.rpartition(".")[0]


def _read(root: Path, name: str) -> str:
    return (root / name).read_text(encoding="utf-8")


def _write(root: Path, files: dict[str, str]) -> None:
    """Write files of which every text is known already, so that a mistake changes none."""
    for name, text in files.items():
        with replacing(root / name) as part:
            part.write_text(text, encoding="utf-8")
