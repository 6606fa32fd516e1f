"""The numbers in words and tables, for the tutorial."""

from collections.abc import Iterator

from research.front.numbers import short, shown
from research.front.setting import ALONE, OURS, WARM
from research.pages import put_between
from research.paper.experiment import Record

BEGIN = "<!-- numbers: written by `python -m research front`, not by hand -->"
END = "<!-- end of numbers -->"

ROWS = {
    ALONE: "the offline policy",
    OURS: "`economical`, 1 ¢ a reward",
    "economical at 0.09": "`economical`, 3 ¢",
    "economical at 0.3": "`economical`, 10 ¢",
    "confident": "`confident`, tolerance 0.1",
    "confident as it comes": "`confident`, as it comes",
    "LinUCB after the log, 0.1": "LinUCB after the log, α = 0.1",
    WARM: "LinUCB after the log, α = 0.3 (shown)",
    "LinUCB after the log, 1": "LinUCB after the log, α = 1",
    "LinUCB from nothing": "LinUCB from nothing, α = 0.3 (shown)",
    "warm-started": "`warm_started`, radius × 0.2",
}
"""Who stands in the table, and by which name."""


def markdown(found: Record) -> str:
    """Both tables, each with its sentence."""
    return "\n".join([*_learners(found), "", *_worths(found), "", _sure(found)])


def _learners(found: Record) -> Iterator[str]:
    places = shown(found)
    models = " | ".join(f"{short(place)} is new" for place in places)
    yield f"Reward calls in {found['rounds']:,} rounds, and the mean reward of a prompt (± half a 95 % interval over {len(found['setting']['seeds'])} runs):"
    yield ""
    yield f"| | {models} |"
    yield "|---|---|---|---|"
    for name, label in ROWS.items():
        cells = (_cell(place["means"][name]) for place in places)
        yield f"| {label} | {' | '.join(cells)} |"


def _cell(means: Record) -> str:
    calls, reward = means["calls"]["value"], means["reward"]
    return _unbroken(f"{calls:,.0f} / {reward['value']:.4f} ± {reward['high'] - reward['value']:.4f}")


def _worths(found: Record) -> Iterator[str]:
    yield (
        f"The same at other values of a dollar, if a reward costs {found['setting']['call_cost']:g} of a right answer; "
        "differences are paired by run, with 95 % intervals:"
    )
    yield ""
    yield (
        "| value of a dollar, new model | calls | `economical` less LinUCB after the log, mean reward | "
        "`economical` less the offline policy, calls paid |"
    )
    yield "|---|---|---|---|"
    for place in found["places"]:
        share = 100 * place["means"][OURS]["calls"]["value"] / found["rounds"]
        less = place["economical less"]
        cells = (f"{share:.1f} %", _less(less[WARM]["reward"]), _less(less[ALONE]["net"]))
        yield f"| {place['weight']:g}, {short(place)} | {' | '.join(cells)} |"


def _less(apart: Record) -> str:
    """A difference and its limits, to four decimals; a minus sign that is one."""
    value, low, high = (f"{apart[end]:+.4f}".replace("-", "−") for end in ("value", "low", "high"))
    return _unbroken(f"{value} [{low}, {high}]")


def _sure(found: Record) -> str:
    places = found["places"]
    earned = [place["economical less"][WARM]["reward"] for place in places]
    net = [place["economical less"][ALONE]["net"] for place in places]
    counts = [
        (sum(one["low"] > 0 for one in many), sum(one["high"] < 0 for one in many)) for many in (earned, net)
    ]
    (more, less), (gained, lost) = counts
    return (
        f"Of {len(places)} places `economical` surely earned more than LinUCB with a call in every round in {more}, surely less in {less}. "
        f"After paying for the calls, it was surely better than the offline policy in {gained}, surely worse in {lost}."
    )


def _unbroken(words: str) -> str:
    """In one line, however narrow the page."""
    return words.replace(" ", "\N{NO-BREAK SPACE}")


def put_into(page: str, numbers: str) -> str:
    """The tutorial's page with its numbers renewed."""
    return put_between(page, BEGIN, END, numbers)
