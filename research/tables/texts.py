"""Raw prompts against features made by hand: what `economical` nets on each, and what ridge on TF-IDF earns without a call."""

import functools
import itertools
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np

from research.paper.experiment import Record
from research.paper.frame import Frame
from research.paper.synthetic import LIVE_STREAM
from research.tables.part import Part, line, table
from sparing.errors import require
from sparing.log import Log, Support
from sparing.log.features import Encoder, Features, text
from sparing.log.tables import open_table
from sparing.online import algorithms
from sparing.simulation import Stream, datasets
from sparing.simulation.simulate import play

TEXT, COUNTS, BY_HAND, OFFLINE, BEST = (
    "text",
    "27 features",
    "TF-IDF/SVD by hand",
    "offline ridge",
    "offline ridge, best",
)
NOTHING = -1
"""The place of the new model if the log has all three."""

SPLITS = ("val, test_holdout", "random halves")
ALPHAS = (0.3, 1.0, 3.0, 10.0)
"""Ridge penalties; scikit-learn's default is 1."""


@dataclass(frozen=True)
class Setting:
    """Each model in turn, or none, is never logged; the cheapest other gets `favoured`, or all the same share.

    A dollar is worth `weight`, and a reward costs `call_cost`.
    """

    seeds: tuple[int, ...] = tuple(range(20))
    weight: float = 3.0
    favoured: float = 0.85
    call_cost: float = 0.03
    splits: tuple[str, ...] = SPLITS


def units(setting: Setting) -> list[Record]:
    """A split, a seed and a new model each."""
    common = {"weight": setting.weight, "favoured": setting.favoured, "call_cost": setting.call_cost}
    places = itertools.product(setting.splits, setting.seeds, range(NOTHING, 3))
    return [{"split": split, "seed": seed, "hidden": hidden, **common} for split, seed, hidden in places]


class Sides(NamedTuple):
    """Rows to log and to play live, the contexts of both, and words of both as TF-IDF matrices."""

    logged: np.ndarray
    live: np.ndarray
    contexts: dict[str, tuple[Encoder | None, np.ndarray, np.ndarray]]
    words: tuple[Any, Any]


@functools.cache
def routing() -> datasets.Routing:
    return datasets.load("llm-routing")


@functools.lru_cache(maxsize=2)
def sides(split: str, seed: int) -> Sides:
    """Features of both sides, all fitted on the logged one."""
    found = routing()
    rows = found.rows("val"), found.rows("test_holdout")
    if split == SPLITS[1]:
        order = np.random.default_rng([seed, LIVE_STREAM, 1]).permutation(len(found.prompts))
        rows = order[: len(order) // 2], order[len(order) // 2 :]
    logged, live = ([found.prompts[row] for row in side] for side in rows)
    encoder = Features((("prompt", text()),)).fit(open_table({"prompt": logged}), ["prompt"])
    by_hand, words = _by_hand(logged, live)
    past, future = (encoder.encode_table({"prompt": side}) for side in (logged, live))
    counts, counts_live = (datasets.prompt_features(side, fitted_on=logged) for side in (logged, live))
    contexts: dict[str, tuple[Encoder | None, np.ndarray, np.ndarray]] = {
        TEXT: (encoder, past, future),
        COUNTS: (None, counts, counts_live),
        BY_HAND: (None, *by_hand),
    }
    return Sides(*rows, contexts, words)


def _by_hand(
    logged: Sequence[str], live: Sequence[str]
) -> tuple[tuple[np.ndarray, np.ndarray], tuple[Any, Any]]:
    """32 components of TF-IDF of words and pairs of words, standardised, with a constant; and TF-IDF itself."""
    vectorizers = require("sklearn.feature_extraction.text", extra="learn", purpose="TF-IDF by hand")
    decomposition = require("sklearn.decomposition", extra="learn", purpose="TF-IDF by hand")
    terms = vectorizers.TfidfVectorizer(sublinear_tf=True, ngram_range=(1, 2), min_df=2)
    words = terms.fit_transform(logged), terms.transform(live)
    components = decomposition.TruncatedSVD(32, random_state=0).fit(words[0])
    parts = [components.transform(side) for side in words]
    mean, deviation = parts[0].mean(axis=0), parts[0].std(axis=0)
    one, two = (np.column_stack([np.ones(len(part)), (part - mean) / deviation]) for part in parts)
    return (one, two), words


def run(unit: Record) -> Record:
    """What each nets a live prompt, after paying for its calls; all have the same log and the same order of prompts."""
    found, seed, hidden = routing(), unit["seed"], unit["hidden"]
    side = sides(unit["split"], seed if unit["split"] == SPLITS[1] else 0)
    means = found.quality - unit["weight"] * found.cost
    shares = np.full(3, 1 / 3)
    if hidden != NOTHING:
        others = [model for model in range(3) if model != hidden]
        shares = np.zeros(3)
        shares[others] = unit["favoured"], 1 - unit["favoured"]
    rng = np.random.default_rng([seed, LIVE_STREAM])
    actions = rng.choice(3, len(side.logged), p=shares).astype(np.int32)
    order = rng.permutation(len(side.live))
    live = means[side.live[order]]
    rows = []
    for name, (encoder, past, future) in side.contexts.items():
        log = Log.from_indices(
            past,
            actions,
            means[side.logged, actions],
            found.models,
            propensities=shares[actions],
            support=Support.from_distribution(np.tile(shares, (len(actions), 1))),
            encoder=encoder,
        )
        learner = algorithms.economical(log, call_cost=unit["call_cost"], horizon=len(order), seed=seed)
        stream = Stream(future[order], live, np.zeros(len(order)), side.live[order])
        trace = play(learner, stream)
        rows.append((name, int(trace.calls[-1]), float(stream.rewards(trace.actions).mean())))
    offline = [
        _ridge(side, actions, means, alpha=alpha)[order] for alpha in ALPHAS
    ]  # without a call, so in any order
    earned = [float(live[np.arange(len(order)), chosen].mean()) for chosen in offline]
    rows += [(OFFLINE, 0, earned[ALPHAS.index(1.0)]), (BEST, 0, max(earned))]
    net = {name: reward - unit["call_cost"] * calls / len(order) for name, calls, reward in rows}
    return {
        "rows": [
            {"who": name, "calls": calls, "earned": reward, "net": net[name], "less": net[TEXT] - net[name]}
            for name, calls, reward in rows
        ]
    }


def _ridge(side: Sides, actions: np.ndarray, means: np.ndarray, *, alpha: float) -> np.ndarray:
    """The model (n,) of each live prompt by ridge regression of the logged rewards on TF-IDF, among logged models."""
    linear = require("sklearn.linear_model", extra="learn", purpose="ridge regression")
    past, future = side.words
    predicted = np.full((future.shape[0], 3), -np.inf)
    for model in np.unique(actions):
        rows = np.flatnonzero(actions == model)
        fitted = linear.Ridge(alpha=alpha).fit(past[rows], means[side.logged[rows], model])
        predicted[:, model] = fitted.predict(future)
    return predicted.argmax(axis=1)


def tell(found: Frame) -> Iterator[str]:
    """A row for each split and new model: calls and net of raw prompts, and how much more that is than each other."""
    others = (COUNTS, BY_HAND, OFFLINE, BEST)
    yield from table(
        "split, new model",
        "calls",
        "net",
        "less the 27 features",
        "less TF-IDF/SVD by hand",
        "less offline ridge",
        "less offline ridge, best penalty in hindsight",
    )
    names = {NOTHING: "none", 0: "Llama", 1: "Mistral", 2: "Gemini"}
    for (split, hidden), group in found.by("split", "hidden").items():
        rows = {row["who"]: row for row in group.rows}
        ours = rows[TEXT]
        cells = (
            f"{rows[name]['less']:+.4f} ± {rows[name]['less_se']:.4f}".replace("-", "−") for name in others
        )
        yield line(
            f"{split}, {names[hidden]}",
            f"{ours['calls']:,.0f}",
            f"{ours['net']:.4f}",
            *(cell.replace(" ", "\u00a0") for cell in cells),
        )


PART = Part(
    "texts",
    "features.md",
    Setting(seeds=(0,), splits=SPLITS[:1]),
    Setting(),
    units,
    run,
    ("split", "hidden", "who"),
    ("calls", "earned", "net", "less"),
    tell,
)
