"""Logs in the formats of other contextual bandit tools, read and written without those tools.

`FORMATS` lists them by name. Reading gives the log and sentences that say what was assumed; writing
gives sentences that say what the format could not carry.
"""

import os
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from sparing.errors import LogError
from sparing.log.files import ending as ending_of
from sparing.log.files import readable, unpacked
from sparing.log.formats import coba, dsjson, obp, open_bandit, river, sniffing, vw_adf, vw_json, vw_text
from sparing.log.formats.lines import is_path
from sparing.log.log import Log

HEAD_BYTES = 2**16
"""How much of a file is looked at to tell its format."""


@dataclass(frozen=True)
class Format:
    """A way to store logs.

    `ending` is the format's own, `endings` those of files that may hold it. `sniff` looks at the first
    bytes of a file, `accepts` at an object in memory. `read(source, **options)` gives the log and what
    was assumed, `write(log, path)` what could not be written.
    """

    name: str
    title: str
    ending: str
    endings: tuple[str, ...]
    sniff: Callable[[bytes], bool]
    accepts: Callable[[Any], bool]
    read: Callable[..., tuple[Log, list[str]]]
    write: Callable[[Log, str | os.PathLike[str]], list[str]]


JSON_ENDINGS = (".json", ".jsonl", ".ndjson", ".log", ".txt")
TEXT_ENDINGS = (".txt", ".dat", ".log")

FORMATS: dict[str, Format] = {
    each.name: each
    for each in (
        Format(
            "obp",
            "Open Bandit Pipeline's bandit_feedback",
            ".npz",
            (".npz",),
            sniffing.obp,
            lambda source: (
                isinstance(source, Mapping) and {"context", "action", "reward", "n_actions"} <= set(source)
            ),
            obp.read,
            obp.write,
        ),
        Format(
            "open-bandit",
            "the Open Bandit Dataset's CSV",
            "",
            (".csv",),
            sniffing.open_bandit,
            lambda source: False,
            open_bandit.read,
            open_bandit.write,
        ),
        Format(
            "vw-adf",
            "Vowpal Wabbit's --cb_adf text",
            ".adf",
            (".adf", ".vw", *TEXT_ENDINGS),
            sniffing.vw_adf,
            lambda source: False,
            vw_adf.read,
            vw_adf.write,
        ),
        Format(
            "vw",
            "Vowpal Wabbit's --cb text",
            ".vw",
            (".vw", *TEXT_ENDINGS),
            sniffing.vw_text,
            lambda source: False,
            vw_text.read,
            vw_text.write,
        ),
        Format(
            "dsjson",
            "Vowpal Wabbit's --dsjson lines",
            ".dsjson",
            (".dsjson", *JSON_ENDINGS),
            sniffing.dsjson,
            lambda source: _first(source, lambda item: isinstance(item, Mapping) and "c" in item),
            dsjson.read,
            dsjson.write,
        ),
        Format(
            "vw-json",
            "Vowpal Wabbit's --json lines",
            "",
            JSON_ENDINGS,
            sniffing.vw_json,
            lambda source: _first(source, lambda item: isinstance(item, Mapping) and _is_vw_json(item)),
            vw_json.read,
            vw_json.write,
        ),
        Format(
            "coba",
            "coba's logged interactions",
            "",
            JSON_ENDINGS,
            sniffing.coba,
            lambda source: _first(
                source,
                lambda item: isinstance(item, Mapping) and set(item) >= {"context", "action", "reward"},
            ),
            coba.read,
            coba.write,
        ),
        Format(
            "river",
            "river's bandit history",
            "",
            JSON_ENDINGS,
            sniffing.river,
            lambda source: _first(source, lambda item: isinstance(item, list | tuple) and len(item) == 4),
            river.read,
            river.write,
        ),
    )
}


def _is_vw_json(item: Mapping[Any, Any]) -> bool:
    return "_multi" in item or any(str(key).startswith("_label") for key in item)


def _first(source: Any, test: Callable[[Any], bool]) -> bool:
    return (
        isinstance(source, Sequence) and not isinstance(source, str) and len(source) > 0 and test(source[0])
    )


def detect(source: Any) -> Format | None:
    """The format of a file, by its ending and first bytes, or of an object; None where it is none of these."""
    if not is_path(source):
        return next((each for each in FORMATS.values() if each.accepts(source)), None)
    path = Path(source)
    if not path.is_file():
        return None
    with readable(path), unpacked(path) as file:
        head = file.read(HEAD_BYTES)
    ending = ending_of(path)
    likely = [each for each in FORMATS.values() if ending in each.endings] or list(FORMATS.values())
    own = (
        each for each in likely if each.ending and each.ending == ending
    )  # says best what is wrong with it
    return next((each for each in likely if each.sniff(head)), next(own, None))


def to_write(path: str | os.PathLike[str]) -> Format | None:
    """The format whose own ending a path has, or None."""
    ending = Path(path).suffix.lower()
    return next((each for each in FORMATS.values() if each.ending and each.ending == ending), None)


def named(name: str) -> Format:
    """The format of this name."""
    try:
        return FORMATS[name]
    except KeyError:
        raise LogError(f"unknown format {name!r}; known are {', '.join(FORMATS)}") from None
