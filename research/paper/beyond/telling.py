"""What the differences say in sentences; what a 95 % interval does not tell apart is not claimed."""

from collections.abc import Callable, Mapping

from research.learners import label
from research.paper.beyond.comparing import PLACE
from research.paper.beyond.setting import Setting
from research.paper.beyond.units import CLASSES, GUESTS, ROBUST, ROUTING, WORLD
from research.paper.experiment import Record
from research.paper.frame import Frame
from research.paper.intervals import Interval

SHOWN = 3
"""Places that a caption names, the worst first."""

EVERY = 10**6
"""As many as there are."""

CHANCE = "Of forty differences of nothing, one would seem to be so."
"""What the level of a 95 % interval means for a list of many."""

Place = Callable[[Record], str]


def told(name: str, at: float | None) -> str:
    """A learner's name with its tolerance or price."""
    return label(name) + ("" if at is None else f" ({at:g})")


def interval(row: Record) -> Interval:
    """A difference again; its ends are null where one seed is all there is."""
    return Interval(
        *(row[name] if row[name] is not None else float("nan") for name in ("value", "low", "high"))
    )


def surely(differences: Frame, sign: int) -> Frame:
    """The differences that are surely above 0 (sign 1) or below it (−1)."""
    end = "low" if sign > 0 else "high"
    return differences.only(lambda row: row[end] is not None and sign * row[end] > 0)


def lost(differences: Frame, what: str, place: Place, *, sign: int = 1, shown: int = SHOWN) -> str:
    """Than whom `economical` surely has more of something and where, the worst first; less of it, if sign is −1."""
    more, worse = "more" if sign > 0 else "less", surely(differences, sign)
    if not len(worse):
        return (
            f"Where ours lose: nowhere here has economical surely {more} {what} than another (paired, 95 %)."
        )
    parts = []
    for (other, at), found in worse.by("other", "at").items():
        ordered = sorted(found, key=lambda row: -sign * row["value"])
        listed = ", ".join(f"{place(row)} {interval(row).text()}" for row in ordered[:shown])
        rest = f" and {len(ordered) - shown} more" if len(ordered) > shown else ""
        of = len(differences.where(other=other, at=at))
        parts.append(f"than {told(other, at)} in {len(found)} of {of} ({listed}{rest})")
    return (
        f"Where ours lose: economical has surely {more} {what} (difference, paired, 95 %) {'; '.join(parts)}."
    )


def tallied(differences: Frame, what: str) -> list[str]:
    """For each other, in how many places `economical` is surely below it, above it, and neither."""
    sentences = []
    for (other, at), found in differences.by("other", "at").items():
        below, above = len(surely(found, -1)), len(surely(found, 1))
        sentences.append(
            f"{what}: economical less {told(other, at)}: surely lower in {below} of {len(found)}, "
            f"surely higher in {above}, no clear difference in {len(found) - below - above}."
        )
    return sentences


def at_price(row: Record) -> str:
    """A place and a price in words."""
    part = f", {row['part']}" if row["kind"] == WORLD else ""
    return f"{row['place']}{part} at {row['price']:g}σ"


def in_place(row: Record) -> str:
    """A place in words."""
    return str(row["place"])


def in_budget(row: Record) -> str:
    """A place and a budget in words."""
    return f"{row['place']}, {row['part']}, B = {row['budget']:,}"


def in_variant(row: Record) -> str:
    """A place and a variant in words."""
    return f"{row['part']}, {row['place']}"


def losses(setting: Setting, found: Mapping[str, Frame]) -> dict[str, str]:
    """A sentence for each figure: where ours lose in what it shows."""
    totals, least = found["totals"], f"at {setting.prices[0]:g}σ"
    worlds = found[f"{WORLD} at the least price"]
    guests = worlds.among("other", GUESTS)
    own = worlds.only(lambda row: row["other"] not in GUESTS)
    sentences = {
        size.name: lost(own.where(part=size.name), f"regret {least}", in_place) for size in setting.sizes
    }
    sentences |= {
        "outside": lost(guests, f"regret {least}", in_place),
        "totals": lost(totals.where(kind=WORLD), "in all", at_price),
        "budgets": lost(found["budgets"], "regret", in_budget),
        "robustness": lost(totals.where(kind=ROBUST), "in all", in_variant),
    }
    for kind, metric, sign in ((CLASSES, "held-out error", 1), (ROUTING, "live reward", -1)):
        sold = lost(found[f"{kind} at the least price"], f"{metric} {least}", in_place, sign=sign)
        whole = lost(totals.where(kind=kind), "regret and price together", at_price)
        sentences[kind] = f"{sold} {whole.replace('Where ours lose: ', 'In all: ')}"
    return sentences


def notes(setting: Setting, found: Mapping[str, Frame], sharpened: list[Record]) -> list[str]:
    """What the page says beside the figures."""
    totals = found["totals"]
    sentences = [f"{lost(totals.where(kind=WORLD), 'in all', at_price, shown=EVERY)} {CHANCE}"]
    sentences += [further(setting)] if setting.further else []
    sentences += [lost(found["budgets"], "regret within a budget", in_budget, shown=EVERY)]
    for size in setting.sizes:
        rows = totals.where(kind=WORLD, part=size.name)
        sentences += tallied(rows, f"Totals, {size.text}, {_grid(rows)}")
    for kind, words in ((CLASSES, "data sets"), (ROUTING, "llm-routing")):
        rows = totals.where(kind=kind)
        sentences += tallied(rows, f"Totals, {words}, {_grid(rows)}")
    sentences += tallied(
        found["budgets"], f"Regret within a budget, confident cut there, {_grid(found['budgets'])}"
    )
    for row in sharpened:
        sentences.append(
            f"Sharpened logging, {row['part']}, at {row['price']:g}σ: economical less ε-mOFUL-IPS: calls "
            f"{interval(row).text()}, with {row['regret_share']:.2g} of its regret."
        )
    return sentences


def further(setting: Setting) -> str:
    """On how many seeds ours meet the log alone."""
    return (
        f"In synthetic worlds economical meets the log alone on {len(setting.seeds) + len(setting.further):,} seeds, the others on "
        f"{len(setting.seeds)}: trying what was never logged costs a little nearly always and gains much at times, which "
        "few seeds may miss."
    )


def _grid(rows: Frame) -> str:
    return f"{len(rows.by(*PLACE))} places"
