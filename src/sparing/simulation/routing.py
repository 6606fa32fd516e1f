"""Prompts that three language models answered: what each answer was worth, and what it cost."""

import json
import re
import zipfile
import zlib
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise

import numpy as np
from numpy.typing import NDArray

from sparing.errors import DataError

FOLDER = "pareto_bandit/data/examples/"
SPLITS = ("val", "test_holdout")

BUCKETS = 512
"""Places into which words and pairs of words are hashed."""

_WORD = re.compile(r"\w+")
_CODE = re.compile(r"[{}\[\];=<>]|\bdef |\bpython\b", re.IGNORECASE)
_CHOICES = re.compile(r"\([A-E]\)")


@dataclass(frozen=True, eq=False)
class Routing:
    """Prompts (n), what each model's answer was judged to be worth, (n, m) in [0, 1], and its cost in dollars, (n, m).

    `split` (n,) is "val" or "test_holdout"; `topics` (n) names the collection that a prompt is from, which a
    router would not know. The models stand in the order of their price.
    """

    prompts: tuple[str, ...]
    models: tuple[str, ...]
    quality: NDArray[np.float64]
    cost: NDArray[np.float64]
    split: NDArray[np.str_]
    topics: tuple[str, ...]
    source: str

    def rows(self, split: str) -> NDArray[np.intp]:
        """The numbers of the rows of a split."""
        return np.flatnonzero(self.split == split)


def read_routing(wheel: zipfile.ZipFile, source: str) -> Routing:
    """The two files of the wheel, one JSON object a line."""
    rows: list[tuple[str, str, str, dict[str, tuple[float, float]]]] = []
    for split in SPLITS:
        member = f"{FOLDER}{split}.jsonl"
        lines = wheel.read(member).decode("utf-8").strip().split("\n")  # a prompt may hold other line ends
        for number, line in enumerate(lines, 1):
            try:
                rows.append((split, *_row(line)))
            except (KeyError, TypeError, ValueError, AttributeError) as error:
                raise DataError(
                    f"{member}, line {number}: expected prompt, source and each arm's reward and cost, got {line[:60]!r}."
                ) from error
    models = tuple(rows[0][3]) if rows else ()
    if not models or any(arms.keys() != set(models) for *_, arms in rows):
        raise DataError(f"{FOLDER}: expected rows with the same models in all, got {models} in the first.")
    numbers = np.array([[arms[model] for model in models] for *_, arms in rows], dtype=np.float64)
    if not np.isfinite(numbers).all():
        raise DataError(f"{FOLDER}: a reward or a cost is not finite.")
    splits, prompts, topics, _ = zip(*rows, strict=True)
    return Routing(prompts, models, numbers[:, :, 0], numbers[:, :, 1], np.array(splits), topics, source)


def _row(line: str) -> tuple[str, str, dict[str, tuple[float, float]]]:
    found = json.loads(line)
    arms = {model: (float(arm["reward"]), float(arm["cost"])) for model, arm in found["arms"].items()}
    if not isinstance(found["prompt"], str) or not isinstance(found["source"], str):
        raise TypeError("a prompt and its source are texts")
    return found["prompt"], found["source"], arms


def prompt_features(
    prompts: Sequence[str], *, fitted_on: Sequence[str] | None = None, keep: int = 16
) -> NDArray[np.float64]:
    """Numbers that tell prompts apart, (n, 1 + 10 + keep), by nothing but their letters.

    A constant; ten plain counts and marks, standardised; and the `keep` largest principal components, each
    scaled to variance 1, of which words and pairs of neighbouring words occur (hashed to `BUCKETS` places
    by CRC-32, log(1 + count), unit norm). Means, deviations and components are those of `fitted_on`, which
    is the prompts themselves unless given.
    """
    known = prompts if fitted_on is None else fitted_on
    seen_marks, seen_words = _marks(known), _words(known)
    marks, words = (seen_marks, seen_words) if fitted_on is None else (_marks(prompts), _words(prompts))
    centre, spread = seen_marks.mean(axis=0), seen_marks.std(axis=0)
    middle = seen_words.mean(axis=0)
    variances, directions = np.linalg.eigh(np.cov(seen_words.T, bias=True))
    largest = np.argsort(-variances)[:keep]
    basis = directions[:, largest]
    basis *= np.sign(basis[np.abs(basis).argmax(axis=0), np.arange(basis.shape[1])])  # else of either sign
    scale = np.sqrt(np.maximum(variances[largest], 1e-12))
    parts = (marks - centre) / np.where(spread > 0, spread, 1), (words - middle) @ basis / scale
    return np.column_stack([np.ones(len(prompts)), *parts])


def _marks(prompts: Sequence[str]) -> NDArray[np.float64]:
    """Ten plain counts and marks of each prompt, (n, 10)."""
    return np.array([_marks_of(prompt) for prompt in prompts], dtype=np.float64).reshape(len(prompts), 10)


def _marks_of(prompt: str) -> list[float]:
    size, words = max(len(prompt), 1), _WORD.findall(prompt)
    return [
        np.log1p(len(prompt)),
        np.log1p(prompt.count("\n")),
        np.log1p(sum(letter.isdigit() for letter in prompt)),
        sum(not (letter.isalnum() or letter.isspace()) for letter in prompt) / size,
        sum(letter.isupper() for letter in prompt) / size,
        sum(map(len, words)) / max(len(words), 1),
        "?" in prompt,
        not prompt.isascii(),
        _CODE.search(prompt) is not None,
        _CHOICES.search(prompt) is not None,
    ]


def _words(prompts: Sequence[str]) -> NDArray[np.float64]:
    """Which words and pairs of neighbouring words occur, hashed, (n, BUCKETS), rows of unit norm."""
    counts = np.zeros((len(prompts), BUCKETS))
    for row, prompt in enumerate(prompts):
        words = _WORD.findall(prompt.lower())
        for token in {*words, *map(" ".join, pairwise(words))}:
            counts[row, zlib.crc32(token.encode()) % BUCKETS] += 1
    marks = np.log1p(counts)
    return marks / np.maximum(np.linalg.norm(marks, axis=1, keepdims=True), 1e-12)
