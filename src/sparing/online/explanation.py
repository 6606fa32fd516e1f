"""What each raw column contributed to an action's estimate, and to its gap to another action."""

import math
from collections.abc import Hashable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from sparing.errors import DecisionError
from sparing.log.features.encoder import Encoder
from sparing.log.labels import truncate
from sparing.online.confidence_sets import ranked
from sparing.online.decision import Decision, as_context, label_index
from sparing.online.engine import runs
from sparing.report.notebook import card
from sparing.report.text import aligned, counted

if TYPE_CHECKING:
    from sparing.online.core import Estimates
    from sparing.online.learner import Learner

COST = "cost"
"""The kind and name of the line of the known cost of playing the action."""

KERNEL = "interactions"
"""The kind and name of the line of all kernel features, each of which depends on every column."""

SHOWN = 9  # columns in a text, which a notebook shows in full
DIGITS = 4  # significant ones of the largest number shown
LONGEST = 200  # characters of a value that are kept
WORDS = 5  # of a text that are named each way
TEXT = "text"  # the kind of columns of texts
EXACT = 2**53  # the largest whole number that every reader of JSON takes


@dataclass(frozen=True)
class WordContribution:
    """A word's part of the contribution of its text.

    Attributes
    ----------
    word : str
        The word in small letters; empty for the rest: all other words, less what an average text contributes.
    amount : float
        Its part of the estimate.
    gap : float or None
        Its part of the gap; None if there is no other action.
    """

    word: str
    amount: float
    gap: float | None

    @property
    def label(self) -> str:
        """The word, indented as a part of its column."""
        return f"  “{truncate(self.word)}”" if self.word else "  other words, less an average text"


@dataclass(frozen=True)
class Contribution:
    """One raw column's part of an estimate, compared with the average context.

    Attributes
    ----------
    column : str
        Name of the raw column; `interactions` for all kernel features together, `cost` for the known cost of playing the action.
    kind : str
        Kind of the column, such as `number`; `interactions` for kernel features, `cost` for the cost.
    value : bool, int, float, str or None
        The column's value in this context. Long texts are cut; a list is given by its length. None if it is missing, or if the context was
        given as encoded numbers.
    amount : float
        Σ (x_i − x̄_i)·θ̂_i over the column's features, for the action, in units of the reward.
    gap : float or None
        The same less that of the other action; None if there is no other action.
    note : str
        What is particular: `missing`, `not in the log`, or how a number was clipped. Else empty.
    words : tuple of WordContribution
        Of a text, the words with the largest parts, up to five each way, and the rest in one; they sum to `amount` and `gap`.
    """

    column: str
    kind: str
    value: Any
    amount: float
    gap: float | None
    note: str = ""
    words: tuple[WordContribution, ...] = ()

    @property
    def label(self) -> str:
        """The column with its value and its note."""
        name = truncate(self.column)
        shown = name if self.value is None else f"{name} = {truncate(_text(self.value))}"
        return f"{shown} ({self.note})" if self.note else shown


@dataclass(frozen=True)
class Explanation:
    """Why an action has its estimate, and why its estimate differs from that of another action.

    `base` and the amounts of all contributions sum to `estimate`; `base_gap` and their gaps sum to `gap`. Both hold to rounding, 2⁻⁵² of the
    largest term. `print` shows them so that the rounded numbers sum too.

    The model is linear in the encoded features, so the amounts are exact for the model. They are not effects: columns that go together in
    the log share their effect in some proportion.

    Attributes
    ----------
    action, against : hashable
        Labels of the explained action and of the one it is compared with; `against` is None if there is no other action.
    estimate : float
        Estimated mean reward of the action in this context, less its known cost.
    gap : float or None
        How much higher it is than that of `against`; negative if the learner explores an action that looks worse.
    base, base_gap : float
        Estimate and gap in the average context.
    contributions : tuple of Contribution
        One for each raw column, those with the largest gaps first.
    rows : int
        Number of rows, logged and live, whose mean context is the average context x̄. If 0, all features are compared with 0: the learner has no rows, or its
        features have no constant.
    """

    action: Hashable
    against: Hashable | None
    estimate: float
    gap: float | None
    base: float
    base_gap: float | None
    contributions: tuple[Contribution, ...]
    rows: int

    def to_dict(self) -> dict[str, Any]:
        """Return the explanation as values that JSON can hold, if the labels are.

        Returns
        -------
        dict
        """
        found = asdict(self)
        found["contributions"] = [each | {"words": list(each["words"])} for each in found["contributions"]]
        return found

    @property
    def title(self) -> str:
        """One line: the action, its estimate, and the gap."""
        costs, places = any(each.kind == COST for each in self.contributions), self._decimals()
        text = f"{truncate(str(self.action))}: estimated reward{' less cost' if costs else ''} "
        text += _number(self.estimate, places)
        if self.gap is None:
            return text
        away = _number(abs(self.gap), places)
        return f"{text}, {away} {'below' if self.gap < 0 else 'above'} {truncate(str(self.against))}"

    @property
    def reference(self) -> str:
        """The context that the columns are compared with."""
        return f"the average of {counted(self.rows, 'row')}" if self.rows else "all features 0"

    def _decimals(self) -> int:
        terms = [self.estimate, self.base, *(each.amount for each in self.contributions)]
        largest = max(map(abs, terms))
        return max(0, DIGITS - 1 - math.floor(math.log10(largest))) if largest else 0

    def _lines(self, *, words: bool) -> list[list[str]]:
        """Label, amount and gap of each line: the average context, the columns (with their words), the sum. They sum as they stand."""
        shown, left, places = self.contributions[:SHOWN], self.contributions[SHOWN:], self._decimals()
        split = [each.words if words else () for each in shown]
        labels = [self.reference]
        for each, parts in zip(shown, split, strict=True):
            labels += [each.label, *(part.label for part in parts)]
        labels += [counted(len(left), "other column")] if left else []
        columns = [[*labels, "sum"]]
        for total, base, name in ((self.estimate, self.base, "amount"), (self.gap, self.base_gap, "gap")):
            if total is None or base is None:
                continue
            rest = [math.fsum(getattr(each, name) for each in left)] if left else []
            first, *fair = round_to_sum(
                [base, *(getattr(each, name) for each in shown), *rest], total, places
            )
            ends = _number if name == "amount" else _signed
            numbers = [ends(first, places)]
            for number, parts in zip(fair, [*split, *([()] if left else [])], strict=True):
                numbers.append(_signed(number, places))
                own = [getattr(part, name) for part in parts]
                numbers += [
                    _signed(each, places) for each in (round_to_sum(own, number, places) if own else ())
                ]
            columns.append([*numbers, ends(total, places)])
        return [list(line) for line in zip(*columns, strict=True)]

    def __str__(self) -> str:
        return "\n".join([self.title, *aligned([self._header, *self._lines(words=True)])])

    def _repr_html_(self) -> str:
        places = self._decimals()
        notes = [
            f"{truncate(each.column)}: "
            + ", ".join(f"{part.label.strip()} {_signed(part.amount, places)}" for part in each.words)
            for each in self.contributions
            if each.words
        ]
        return card(self.title, header=self._header, rows=self._lines(words=False), notes=notes)

    @property
    def _header(self) -> list[str]:
        return ["column", "estimate"] if self.gap is None else ["column", "estimate", "gap"]


def explain_decision(decision: Decision, against: Hashable | None) -> Explanation:
    """Explain a decision by the state that it was made by, or raise a DecisionError."""
    if decision.source is None:
        raise DecisionError(
            "this decision is a copy, or from a file: it does not know its context. learner.explain(x, action) explains an estimate "
            "by the learner's present state"
        )
    estimates, changes, x, allowed, priced, *kept = decision.source
    if kept and against in (None, kept[0].against):
        found: Explanation = kept[0]
        return found
    action = estimates.index[decision.action]
    with estimates.lock:
        if estimates.changes != changes:
            raise DecisionError(
                f"the learner has changed since decision {decision.id}, and so have its estimates. Ask before the next update, or decide "
                f"with explain=True; learner.explain(x, {decision.action!r}) explains the action by the present state"
            )
        named = estimates.encoder.named(x) if not isinstance(x, np.ndarray | list | tuple) else None
        context = as_context(x if named is None else named, estimates.sets.shape[1], estimates.encoder)
        made = explain(estimates, context, x, action, against, allowed, priced)
    if made.estimate != decision.value:
        raise DecisionError(
            f"the context of decision {decision.id} has changed since: its value was {decision.value!r}, and is {made.estimate!r} there. Pass "
            "a copy to decide, or use explain=True"
        )
    return made


def explain(
    estimates: "Estimates",
    context: np.ndarray,
    x: Any,
    action: int,
    against: Hashable | None,
    allowed: np.ndarray,
    priced: np.ndarray | None,
) -> Explanation:
    """Explain an action (index) in a context (d,) that was given as x; the best one for −1. The caller holds the lock.

    `priced` (K,) are the costs of the round, if it has its own.
    """
    costs = estimates.costs if priced is None else priced
    order = _ranking(estimates, context, allowed, costs)
    chosen = action if action >= 0 else order[0]
    other = next((one for one in order if one != chosen), -1)
    if against is not None:
        other = label_index(against, estimates.index)
    if other == chosen:
        raise DecisionError(f"against={against!r} is the explained action; name another one")
    row, average, rows = estimates.encoder.raw_row(x), *_average(estimates)
    name, theta, estimate = _side(estimates, chosen, context, priced)
    against, theirs, gap = None, None, None
    if other >= 0:
        against, theirs, value = _side(estimates, other, context, priced)
        gap = estimate - value
    delta, found = context - average, []
    for column, kind, shown, note, part in _parts(estimates.encoder, context, row):
        amount = math.fsum(delta[part] * theta[part])
        less = None if theirs is None else math.fsum(delta[part] * (theta[part] - theirs[part]))
        split: tuple[WordContribution, ...] = ()
        if kind == TEXT and row is not None and note != "missing":
            column_of = estimates.encoder.by_column[column]
            split = _split_words(
                column_of, row[column], amount, less, theta[part], None if theirs is None else theirs[part]
            )
        found.append(Contribution(column, kind, shown, amount, less, note, split))
    if costs is not None:
        more = None if other < 0 else float(costs[other] - costs[chosen])
        found.append(Contribution(COST, COST, float(costs[chosen]), -float(costs[chosen]), more))
    found.sort(key=lambda each: -abs(each.amount if each.gap is None else each.gap))
    # What rounding leaves is in the base.
    base = estimate - math.fsum(each.amount for each in found)
    rest = None if gap is None else gap - math.fsum(each.gap or 0.0 for each in found)
    return Explanation(name, against, estimate, gap, base, rest, tuple(found), rows)


def _side(
    estimates: "Estimates", action: int, context: np.ndarray, priced: np.ndarray | None
) -> tuple[Hashable, np.ndarray, float]:
    """Label, θ̂ (d,) and estimate less cost of an action (index), as decisions have it."""
    a, sets = estimates.sets.arrays, estimates.sets
    view = sets.scratch.observed if priced is None else sets.repriced(priced)[0]
    mean, _ = runs.VALUE.call(view, context, action)
    return estimates.names[action], a.theta[a.observed_slot[action]], float(mean)


def _ranking(
    estimates: "Estimates", context: np.ndarray, allowed: np.ndarray, costs: np.ndarray | None
) -> list[int]:
    """The two allowed actions (indices) with the highest means of reward less cost; one if there is no other."""
    a, sets = estimates.sets.arrays, estimates.sets
    mean = (a.theta[: a.used] @ context)[a.observed_slot]
    priority = sets.ties
    if costs is not None:
        mean, priority = mean - costs, ranked(sets.ties, costs)[0]
    left = np.flatnonzero(allowed) if len(allowed) else np.arange(len(mean))
    best: list[int] = left[np.lexsort((priority[left], -mean[left]))[:2]].tolist()
    return best


def average_context(learner: "Learner") -> tuple[np.ndarray, int]:
    """The mean context (d,) of a learner's rows so far, and their number; zeros and 0 if it is unknown."""
    with learner._lock:
        return _average(learner._estimates or learner._present())


def _average(estimates: "Estimates") -> tuple[np.ndarray, int]:
    """The mean context (d,) of all rows so far, and their number; zeros and 0 if it is unknown.

    The sums of a constant feature with the others are the sums of the contexts. A prior many orders of magnitude
    larger than the rows would leave nothing but rounding.
    """
    if estimates.encoder.constant:
        sums, rows = estimates.sets.constant_sums()
        if rows and abs(sums[0] - rows) <= 1e-6 * rows:
            average = sums / rows
            average[0] = 1.0
            return average, round(rows)
    zero = np.zeros(estimates.sets.shape[1])
    zero[: int(estimates.encoder.constant)] = 1.0
    return zero, 0


def _parts(
    encoder: Encoder, x: np.ndarray, row: Mapping[str, Any] | None
) -> Iterator[tuple[str, str, Any, str, slice]]:
    """Name, kind, value, note and features of each column, and of the kernel."""
    for column, first, stop in encoder.spans:
        value, note = None, ""
        if row is not None:
            value, note = _plain(row[column.column]), column.note(row[column.column])
        elif column.kind == "raw":
            value = float(x[first])
        yield column.column, column.kind, None if note == "missing" else value, note, slice(first, stop)
    if encoder.kernel is not None:
        yield KERNEL, KERNEL, None, "kernel features of all columns", slice(encoder.linear.stop, encoder.size)


def _split_words(
    column: Any,
    value: Any,
    amount: float,
    gap: float | None,
    theta: np.ndarray,
    theirs: np.ndarray | None,
) -> tuple[WordContribution, ...]:
    """The words of a text with the largest parts each way, and the rest, which has what rounding leaves."""
    own, _ = column.contributions(value, theta)
    less = None if theirs is None else column.contributions(value, theta - theirs)[0]
    ranks = own if less is None else less
    order = sorted(ranks, key=lambda word: ranks[word])
    low = [word for word in order[:WORDS] if ranks[word] < 0]
    high = [word for word in order[-WORDS:] if ranks[word] > 0]
    found = [
        WordContribution(word, own[word], None if less is None else less[word])
        for word in sorted((*low, *high), key=lambda word: -abs(ranks[word]))
    ]
    rest = amount - math.fsum(each.amount for each in found)
    left = None if gap is None else gap - math.fsum(each.gap or 0.0 for each in found)
    return (*found, WordContribution("", rest, left)) if found else ()


def _plain(value: Any) -> Any:
    """A value as JSON can hold it: a long text is cut, a list is given by its length."""
    if isinstance(value, np.generic):
        value = value.item()
    if value is None or isinstance(value, bool):
        return value
    if isinstance(value, int):
        return value if abs(value) <= EXACT else float(value)
    if isinstance(value, float):
        return value if math.isfinite(value) else None
    if isinstance(value, list | tuple | np.ndarray):
        return counted(len(value), "number")
    text = value.isoformat() if hasattr(value, "isoformat") else str(value)
    return text if len(text) <= LONGEST else f"{text[: LONGEST - 1]}…"


def _text(value: Any) -> str:
    return f"{value:.6g}" if isinstance(value, float) else str(value)


def _number(value: float, places: int) -> str:
    return f"{value if abs(value) >= 0.5 * 10.0**-places else 0.0:.{places}f}"


def _signed(value: float, places: int) -> str:
    return f"{value if abs(value) >= 0.5 * 10.0**-places else 0.0:+.{places}f}"


def round_to_sum(parts: Sequence[float], total: float, places: int) -> list[float]:
    """Round numbers to decimal places so that they sum to the rounded total; each is off by less than one unit of the last place.

    All are rounded down, and those that lose most are raised (the method of largest remainders).
    """
    unit = 10.0**places
    down = [math.floor(part * unit) for part in parts]
    short = round(total * unit) - sum(down)
    most = sorted(range(len(parts)), key=lambda i: down[i] - parts[i] * unit)
    for i in most[: max(0, short)]:
        down[i] += 1
    return [each / unit for each in down]
