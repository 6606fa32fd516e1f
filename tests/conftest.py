"""What holds for all tests, and what tests in several rooms share."""

import gc
import os
from pathlib import Path

import pytest

SLOW = {Path(__file__).parent / name for name in ("bench", "paper", "statistical", "tables")}

os.environ.pop("COLUMNS", None)  # xdist sets it; without, what a command prints into a pipe is not wrapped


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(items):
    """Tests of research, which no user runs, and those of hundreds of simulated runs are those of `make thorough`."""
    for item in items:
        if SLOW & set(item.path.parents):
            item.add_marker(pytest.mark.thorough)


def pytest_collection_finish():
    """Leave what imports and collection made out of every later garbage collection."""
    gc.collect()
    gc.freeze()


@pytest.fixture(scope="module")
def chromium():
    """A browser; one a module, for while it runs no other event loop can."""
    from playwright.sync_api import sync_playwright

    from reference.browser import FLAGS, find_chromium

    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=find_chromium(), args=FLAGS)
        yield browser
        browser.close()
