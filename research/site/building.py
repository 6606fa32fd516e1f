"""The site: docs/ and the generated reference put together in one folder, and built from there."""

import json
import re
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

from research.site import reference

ROOT = Path(__file__).parents[2]

EXTRA_PAGES = ("CHANGELOG.md", "CONTRIBUTING.md", "LICENSE", "deploy/Dockerfile", "deploy/sparing.service")
"""Files beside docs/ that its pages lead to; the site has copies."""


def gather(folder: Path) -> Path:
    """Put everything that the site is built from into a folder; gives its configuration."""
    shutil.rmtree(folder, ignore_errors=True)
    docs = folder / "docs"
    shutil.copytree(ROOT / "docs", docs)
    for path in EXTRA_PAGES:
        (docs / path).parent.mkdir(exist_ok=True)
        shutil.copy(ROOT / path, docs / path)
    for page in docs.rglob("*.md"):
        page.write_text(_inside(page.read_text(encoding="utf-8"), page.relative_to(docs)), encoding="utf-8")
    for name, text in reference.pages().items():
        (docs / name).parent.mkdir(parents=True, exist_ok=True)
        (docs / name).write_text(text, encoding="utf-8")
    config = folder / "zensical.toml"
    written = (ROOT / "zensical.toml").read_text(encoding="utf-8")
    filled = written.replace('{ "Reference" = [] }', _toml({"Reference": reference.navigation()}))
    config.write_text(filled.replace('"../src"', json.dumps(str(ROOT / "src"))), encoding="utf-8")
    return config


def build(out: Path, folder: Path) -> None:
    """Build the site into `out`, strictly: a warning, a dead link or anchor among them, is an error."""
    config = gather(folder)
    command = [sys.executable, "-m", "zensical", "build", "--strict", "--clean", "--config-file", str(config)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode or "Warning" in done.stdout + done.stderr:
        raise SystemExit(re.sub(r"\x1b\[[0-9;]*m", "", done.stdout + done.stderr).partition("Traceback")[0])
    shutil.rmtree(out, ignore_errors=True)
    shutil.move(folder / "site", out)
    shutil.rmtree(folder)


def _inside(text: str, path: Path) -> str:
    """A page's text, its links to files beside docs/ led to the copies."""
    up = "../" * len(path.parts)
    for name in EXTRA_PAGES:
        text = text.replace(f"]({up}{name}", f"]({up[3:]}{name}")
    return text.replace("](docs/", "](") if path.name in EXTRA_PAGES else text


def _toml(value: Any) -> str:
    """Lists, tables and texts in TOML, on one line."""
    if isinstance(value, dict):
        return "{ " + ", ".join(f"{json.dumps(key)} = {_toml(one)}" for key, one in value.items()) + " }"
    if isinstance(value, list):
        return "[" + ", ".join(map(_toml, value)) + "]"
    return json.dumps(value, ensure_ascii=False)
