"""From a log to a decision by curl and a page in the browser, with the commands of README and site as they stand."""

import json
import shutil
import sys
from pathlib import Path

import httpx
import pytest

from reference import reader
from reference.reader import ADDRESS, Reader


@pytest.mark.thorough
def test_the_commands_as_they_stand(tmp_path):
    """The first tutorial from beginning to end, then README and the service's page, with the tutorial's log: all name one port."""
    pages = []
    follower = Reader(tmp_path, Path(sys.executable).parent, looks=lambda: pages.append(httpx.get(ADDRESS)))
    printed = follower.follow("docs/tutorials/clicks.md")
    for name in ("audit.html", "policy.sparing", "plan/plan.html", "plan/plan.png"):
        assert (tmp_path / name).stat().st_size > 0
    decided, rewarded, visited, verified = printed[-4:]
    assert json.loads(decided)["action"] in ("red", "blue", "green", "gold")
    assert json.loads(rewarded)["status"] in ("taken", "unasked")
    assert 0 < int(visited.split()[0]) < 1000
    assert "1,001" in verified
    for page in ("README.md", "docs/service.md"):
        shutil.rmtree(tmp_path / "shop")
        answers = [json.loads(answer) for answer in follower.follow(page, only_served=True)]
        assert answers[0]["needs_reward"] in (True, False), page
    assert len(pages) == len(follower.heard) == 3
    assert all(page.status_code == 200 and "text/html" in page.headers["content-type"] for page in pages)
    assert all(ADDRESS in heard and "Traceback" not in heard for heard in follower.heard)


def test_a_reader_notices(tmp_path, monkeypatch):
    """What a page shows and nothing prints, and a command that fails, are told."""
    monkeypatch.setattr(reader, "ROOT", tmp_path)
    follower = Reader(tmp_path, Path(sys.executable).parent)
    for text in ("```sh\necho one\n```\n```text\ntwo\n```\n", "```sh\nfalse\n```\n"):
        (tmp_path / "page.md").write_text(text, encoding="utf-8")
        try:
            follower.follow("page.md")
        except AssertionError:
            continue
        raise AssertionError(f"nothing was noticed in {text}")
