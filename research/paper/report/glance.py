"""The verdicts at a glance: a row for each claim, a sign, and one sentence of how many hold."""

import re
from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass

from research.paper.beyond.comparing import ALONE
from research.paper.beyond.telling import interval, surely
from research.paper.beyond.units import CLASSES, ROUTING, WORLD
from research.paper.experiment import CLAIMS, FAILS, HOLDS, ONLY_WHEN, Record
from research.paper.frame import Frame
from research.paper.judging import below, word
from research.paper.report import plain

SIGNS = {HOLDS: "✓", ONLY_WHEN: "◐", FAILS: "✗"}
"""A verdict as a sign; a word and a colour stand with it."""

NOT_RUN = "–"
OURS = ("ours", "mended")
KINDS = {CLASSES: "on real data sets", WORLD: "in made-up worlds", ROUTING: "of routed prompts"}
LOST = "Where ours lose"
LIBRARIES = ("squarecb", "regcb", "bayesianbandits", "paretobandit")

SHOWN = {
    "fig1": "Figure 1",
    "fig2": "Figure 2",
    "fig3": "Figure 3",
    "fig4": "Figure 4",
    "table1": "Table 1",
    "theorems": "Theorems",
    "propositions": "Propositions",
    "beyond": "Beyond the paper",
}
"""Experiments as headings name them."""


@dataclass(frozen=True)
class Row:
    """One claim: its name, what was claimed and found in plain words, and the verdict that says it in full."""

    label: str
    experiment: str
    claimed: str
    found: str
    verdict: Record

    @property
    def word(self) -> str:
        """The verdict in a word."""
        verdict: str = self.verdict["verdict"]
        return verdict if verdict in SIGNS else "not run yet"

    @property
    def run(self) -> bool:
        """Whether it was run."""
        return self.verdict["verdict"] in SIGNS

    @property
    def sign(self) -> str:
        """The verdict as a sign."""
        return SIGNS.get(self.word, NOT_RUN)

    @property
    def heading(self) -> str:
        """What its numbers stand under."""
        return f"{self.label} numbers"


def rows(record: Record) -> list[Row]:
    """A row for each claim of the paper in its order, then ours; those without a verdict say how to run them."""
    found = []
    for name, result in record["experiments"].items():
        for verdict in (*result["verdicts"], *economical(name, result)):
            sentence = plain.found(verdict, result)
            found.append(Row(plain.label(verdict), name, plain.claimed(verdict), sentence, verdict))
    shown = {row.verdict["claim"] for row in found}
    for claim, name in CLAIMS.items():
        if claim not in shown:
            found.append(_not_run(claim, name))
    order = [*CLAIMS, "T1", *OURS]
    return sorted(found, key=lambda row: (row.label.startswith("Ours"), _place(row, order), row.label))


def _place(row: Row, order: list[str]) -> int:
    if row.label.startswith("Ours"):
        return 0
    return order.index(row.verdict["claim"]) if row.verdict["claim"] in order else len(order)


def _not_run(claim: str, name: str) -> Row:
    hint = f"not run yet: python -m research reproduce {name}"
    empty = dict.fromkeys(("source", "says", "measured", "when"), "")
    sentence = next(one.claimed for key, one in plain.PLAIN.items() if key[0] == claim)
    return Row(claim, name, sentence, hint, empty | {"claim": claim, "verdict": hint})


def verdicts(record: Record) -> list[Record]:
    """All verdicts in the order of the rows."""
    return [row.verdict for row in rows(record)]


def summary(record: Record) -> str:
    """How many claims hold, in a sentence."""
    shown = rows(record)
    theirs = [row for row in shown if row.run and row.verdict["claim"] not in OURS]
    ours = [row for row in shown if row.run and row.verdict["claim"] in OURS]
    missing = sum(not row.run for row in shown)
    parts = [f"Of {len(theirs)} claims of the paper that were run again, {_counts(theirs)}"]
    parts += [f"of {len(ours)} claims of our own, {_counts(ours)}"] if ours else []
    parts += [f"{missing} are not run yet"] if missing else []
    return "; ".join(parts) + "."


def _counts(shown: Iterable[Row]) -> str:
    count = Counter(row.word for row in shown)
    words = {
        HOLDS: ("holds", "hold"),
        ONLY_WHEN: ("holds only under conditions", "hold only under conditions"),
        FAILS: ("does not hold", "do not hold"),
    }
    parts = [f"{count[one]} {words[one][count[one] != 1]}" for one in SIGNS if count[one]]
    return " and ".join([", ".join(parts[:-1]), parts[-1]] if len(parts) > 1 else parts)


def economical(name: str, result: Record) -> list[Record]:
    """Our claims of `economical`, by what all of it cost, from the numbers beyond the paper."""
    numbers = result["numbers"]
    if name != "beyond" or "differences" not in numbers:
        return []
    totals = Frame.of(numbers["differences"]["totals"])
    claims = {
        "economical, never asking": ((ALONE,), "the log alone"),
        "economical, other libraries": (LIBRARIES, "VW, bayesianbandits and ParetoBandit"),
    }
    found = []
    for source, (others, named) in claims.items():
        rows = totals.among("other", others)
        if len(rows):
            found.append(
                _with_verdict(source, rows, f"regret + price·calls is below that of {named}", numbers)
            )
    return found


def _with_verdict(source: str, rows: Frame, says: str, numbers: Record) -> Record:
    kinds = {kind: rows.where(kind=kind) for kind in KINDS if len(rows.where(kind=kind))}
    findings = {
        kind: {str(number): below(interval(row)) for number, row in enumerate(there)}
        for kind, there in kinds.items()
    }
    parts = ", ".join(
        f"{len(surely(there, -1))} of {len(there)} cases {KINDS[kind]} (worse in {len(surely(there, 1))})"
        for kind, there in kinds.items()
    )
    lost = [note for note in numbers["notes"] if note.startswith(LOST)]
    return {
        "claim": "ours",
        "source": source,
        "says": says,
        "measured": f"Surely cheaper in {parts}: paired, 95 %, a case for each place, price and other learner.",
        "verdict": word(findings),
        "when": " ".join(lost) or "see the comparisons",
        "facts": {"parts": parts},
    }


def slug(heading: str) -> str:
    """A heading's anchor, as GitHub and MkDocs both make it; headings are plain ASCII."""
    return re.sub(r"[^a-z0-9 _-]", "", heading.lower()).strip().replace(" ", "-")


def section(name: str, result: Record) -> str:
    """The heading of an experiment."""
    title = result["title"].removeprefix("What the paper does not show: ")
    return f"{SHOWN[name]}: {title[0].lower()}{title[1:]}"
