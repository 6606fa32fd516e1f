"""The page on JavaScript: every block runs in Node, after the Python block that writes its file."""

import re
import subprocess
from pathlib import Path

from clients.test_javascript_scorer import CLIENT, find_node
from service.serving import columns_log, made, running
from sparing.service.server import ServerSettings

PAGE = Path(__file__).parents[2] / "docs" / "how-to" / "javascript.md"
ADDRESS = "http://127.0.0.1:8321"


def test_the_page_runs(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    blocks = re.findall(
        r"^```(js|python)\n(.*?)^```", PAGE.read_text(encoding="utf-8"), re.MULTILINE | re.DOTALL
    )
    assert len(blocks) == 4
    (tmp_path / "node_modules").mkdir()
    (tmp_path / "node_modules" / "sparing").symlink_to(Path(CLIENT).parent)
    settings = made(ServerSettings(tmp_path / "store", durability="process"), "banners", columns_log())
    printed = []
    with running(settings) as url:
        for kind, text in sorted(blocks, key=lambda block: block[0] == "js"):
            if kind == "python":
                exec(compile(text, PAGE.name, "exec"), {"__name__": "example"})
                continue
            assert ADDRESS in text or "Client" not in text
            patient = text.replace(ADDRESS, url).replace("timeoutMs: 200", "timeoutMs: 20000")
            done = subprocess.run(
                [find_node(), "--input-type=module", "-e", patient],
                capture_output=True,
                text=True,
                check=False,
                timeout=120,
            )
            assert done.returncode == 0, done.stderr
            printed.append(done.stdout)
    round_, local, fallback = printed
    assert re.match(r"(red|green|blue) \S+\n(red|green|blue)\n.*age is 'old'", round_)
    assert local.startswith("red Float64Array(2)")
    assert fallback.strip() in ("red", "green", "blue")
