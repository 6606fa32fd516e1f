"""Run an experiment piece by piece; what is finished is kept, and never run again by the same code."""

import hashlib
import json
import platform
from collections.abc import Callable
from functools import cache
from importlib.metadata import version
from pathlib import Path
from typing import Any

import sparing
from research.paper.experiment import Experiment, Pairs, Record, digest
from sparing.archive import folder, replacing
from sparing.engines import Progress
from sparing.errors import StoppedError
from sparing.simulation.parallel import run_many

UNITS = ".units"
"""The folder of finished pieces within the output folder."""

ABOUT = "Finished pieces of work, kept so that an interrupted run can go on. They may be deleted.\n"

NO_PART = ("cli", "report")
"""Rooms and folders that no experiment imports: what they hold changes no result."""


def libraries() -> Record:
    """The versions of what computes."""
    return {"python": platform.python_version()} | {
        name: version(name) for name in ("numpy", "scipy", "numba")
    }


@cache
def fingerprint() -> str:
    """The SHA-256 of all source files that a result could depend on."""
    summed = hashlib.sha256()
    paper = Path(__file__).parent
    for root in (Path(sparing.__file__).parent, paper, paper.parent / "tables"):
        for path in sorted(path.relative_to(root) for path in root.rglob("*.py")):
            if path.parts[0] not in NO_PART:
                _add(summed, root, path)
    _add(summed, paper.parent, Path("learners.py"))
    return summed.hexdigest()


def _add(summed: Any, root: Path, path: Path) -> None:
    content = (root / path).read_bytes()
    summed.update(f"{path.as_posix()}\0{len(content)}\0".encode() + content)


class Pieces:
    """The pieces of one experiment in one setting, and the folder that keeps those which are finished."""

    def __init__(self, experiment: Experiment, setting: Any, out: Path) -> None:
        self.experiment, self.setting = experiment, setting
        self.units: list[Record] = [json.loads(json.dumps(unit)) for unit in experiment.units(setting)]
        self.folder = out / UNITS / experiment.name
        code = [experiment.name, sparing.__version__, fingerprint(), libraries()]
        self._paths = [self.folder / f"{digest([*code, unit])}.json" for unit in self.units]

    def __len__(self) -> int:
        return len(self.units)

    def kept(self) -> dict[int, Record]:
        """Results that are there already, by place; a damaged file counts as none."""
        found = ((place, _read(path, self.units[place])) for place, path in enumerate(self._paths))
        return {place: result for place, result in found if result is not None}

    def prepare(self) -> None:
        """Make the folder, and find out before long work whether it can be written to."""
        folder(self.folder)
        with replacing(self.folder.parent / "README") as part:
            part.write_text(ABOUT, encoding="utf-8")

    def run(self, *, workers: int | None = None, progress: Progress | None = None) -> Pairs:
        """Run what is not there yet; every (unit, result) pair in the order of the units.

        Each result is written as soon as it is there. An interruption raises `StoppedError`, which says how
        many are kept.
        """
        self.prepare()
        results = self.kept()
        missing = [place for place in range(len(self)) if place not in results]
        report = _counting(progress, len(results), len(self))
        report(0, len(missing))

        def keep(number: int, result: Record) -> None:
            place = missing[number]
            results[place] = self._keep(place, result)

        try:
            run_many(
                self.experiment.run,
                [self.units[place] for place in missing],
                workers=workers,
                progress=report,
                each=keep,
            )
        except KeyboardInterrupt:
            raise StoppedError(
                f"interrupted; {len(results)} of {len(self)} pieces of {self.experiment.name} are kept in "
                f"{self.folder}; run the same command again to go on"
            ) from None
        return [(unit, results[place]) for place, unit in enumerate(self.units)]

    def _keep(self, place: int, result: Record) -> Record:
        """Write one result; what is given back is what reading it again would give."""
        whole: Record = json.loads(json.dumps(result))
        content = {"unit": self.units[place], "result": whole, "sha256": digest(whole)}
        with replacing(self._paths[place]) as part:
            part.write_text(json.dumps(content), encoding="utf-8")
        return whole


def _read(path: Path, unit: Record) -> Record | None:
    try:
        content = json.loads(path.read_text(encoding="utf-8"))
        result: Record = content["result"]
        return result if content["unit"] == unit and content["sha256"] == digest(result) else None
    except (OSError, ValueError, KeyError, TypeError):
        return None


def _counting(progress: Progress | None, before: int, total: int) -> Callable[[int, int], None]:
    def report(done: int, _: int) -> None:
        if progress is not None:
            progress(before + done, total)

    return report
