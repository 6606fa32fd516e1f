"""From a log to a decision by curl and a page in the browser, with the commands of the README and the docs as they stand."""

import json
import os
import re
import subprocess
import sys
import time
from pathlib import Path

import httpx

ROOT = Path(__file__).parents[2]
ADDRESS = "http://127.0.0.1:8321"
BLOCK = re.compile(r"^```sh (serve|curl)\n(.*?)^```", re.DOTALL | re.MULTILINE)
PYTHON = re.compile(r"^```python\n(.*?)^```", re.DOTALL | re.MULTILINE)


def ready():
    for _ in range(600):
        try:
            if httpx.get(f"{ADDRESS}/readyz", timeout=5).status_code == 200:
                return
        except httpx.TransportError:
            pass
        time.sleep(0.1)
    raise AssertionError("the service never became ready")


def test_the_commands_as_they_stand(tmp_path, monkeypatch):
    """Of one page after the other: both name the same port."""
    for number, page in enumerate(["README.md", "docs/service.md"]):
        folder = tmp_path / str(number)
        folder.mkdir()
        followed(page, folder, monkeypatch)


def followed(page, folder, monkeypatch):
    text = (ROOT / page).read_text(encoding="utf-8")
    example = PYTHON.search((ROOT / "README.md").read_text(encoding="utf-8"))[1]
    monkeypatch.chdir(folder)
    exec(example, {})  # writes clicks.csv
    commands = BLOCK.findall(text)
    assert [kind for kind, _ in commands][:2] == ["serve", "curl"]
    path = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"
    said = subprocess.Popen(
        ["bash", "-c", f"exec {commands[0][1]}"], env={**os.environ, "PATH": path}, stderr=subprocess.PIPE
    )
    try:
        ready()
        answers = [
            subprocess.run(["bash", "-ec", command], capture_output=True, text=True, check=True).stdout
            for _, command in commands[1:]
        ]
        first = json.loads(answers[0])
        assert first["action"] in ("red", "blue", "gold")
        assert first["needs_reward"] in (True, False)
        page = httpx.get(ADDRESS)
        assert page.status_code == 200
        assert "text/html" in page.headers["content-type"]
        if len(answers) > 1:
            assert json.loads(answers[1])["status"] in ("taken", "unasked")
    finally:
        said.terminate()
        heard = said.communicate(timeout=30)[1].decode()
    assert ADDRESS in heard
    assert "Traceback" not in heard
