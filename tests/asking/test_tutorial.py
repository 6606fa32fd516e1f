"""The tutorial from beginning to end, with its commands as they stand."""

import sys
from pathlib import Path

import pytest

from reference.reader import Reader
from sparing.errors import DataError
from sparing.simulation import datasets


@pytest.mark.thorough
def test_the_commands_as_they_stand(tmp_path):
    try:
        datasets.load("llm-routing")
    except DataError as error:
        pytest.skip(str(error))
    printed = Reader(tmp_path, Path(sys.executable).parent).follow("docs/tutorials/ask.md")
    for name in ("queue.html", "verdict.html", "gold.sparing", "prompts-next.csv"):
        assert (tmp_path / name).stat().st_size > 0
    assert "Undecided: " in printed[-1]
    assert "prompt: text" in printed[-1]
