"""The JavaScript package in a browser and in Deno: the same modules, the same decisions and scores."""

import json
import shutil
import subprocess
from pathlib import Path

import pytest

import sparing
from clients.test_javascript_client import npm
from clients.test_javascript_scorer import CLIENT
from service.serving import columns_log, made, running
from sparing.service.server import ServerSettings

SCRIPT = """
const {{ Client, Scorer }} = await import({home});
const scorer = new Scorer({policy});
const client = new Client({url}, "banners", {{ timeoutMs: 20000, fallback: (context) => scorer.action(context) }});
const decision = await client.decide({{ age: 31, device: "phone" }}, {{ requestId: {name} }});
const reward = await client.reward(decision, 1);
const local = [[31, "phone"], [60, "tablet"], [null, "other"]].map(([age, device]) => scorer.action({{ age, device }}));
const away = await new Client("http://127.0.0.1:9", "banners", {{ retries: 0, fallback: (context) => scorer.action(context) }}).decide({{ age: 60, device: "tablet" }});
const result = {{ id: decision.decision_id, reward: reward.status, local, away: away.action }};
"""
ROWS = [{"age": 31, "device": "phone"}, {"age": 60, "device": "tablet"}, {"age": None, "device": "other"}]


@pytest.fixture(scope="module")
def policy():
    return sparing.learn(columns_log(), "greedy", ridge=1.0)


@pytest.fixture(scope="module")
def url(tmp_path_factory):
    settings = ServerSettings(tmp_path_factory.mktemp("elsewhere") / "store", durability="process")
    with running(made(settings, "banners", columns_log())) as address:
        yield address


def check(found, policy, name):
    expected = policy.actions(ROWS).tolist()
    assert found["id"]
    assert found["reward"] in ("taken", "unasked")
    assert found["local"] == expected
    assert found["away"] == expected[1]


def script(home, url, policy, name):
    given = {"home": home, "policy": policy.export("json"), "url": url, "name": name}
    return SCRIPT.format(**{key: json.dumps(value) for key, value in given.items()})


def test_a_browser(url, policy, chromium):
    page = chromium.new_page()

    def serve(route):
        name = route.request.url.rpartition("/")[2]
        if name == "page.html":
            route.fulfill(body="<!doctype html><title>visit</title>", content_type="text/html")
        else:
            route.fulfill(
                body=(Path(CLIENT).parent / name).read_text(encoding="utf-8"), content_type="text/javascript"
            )

    page.route("**/assets-of-the-test/*", serve)
    page.goto(f"{url}/assets-of-the-test/page.html")
    code = script(f"{url}/assets-of-the-test/index.js", url, policy, "browser")
    check(page.evaluate(f"async () => {{ {code} return result; }}"), policy, "browser")
    page.close()


@pytest.mark.thorough
def test_deno(url, policy, tmp_path):
    """Deno from npm, with leave for the network alone."""
    (tmp_path / "package.json").write_text("{}", encoding="utf-8")
    npm(["install", "deno@2"], tmp_path)
    deno = tmp_path / "node_modules" / ".bin" / "deno"
    assert shutil.which(deno)
    code = f"{script(Path(CLIENT).as_uri(), url, policy, 'deno')}\nconsole.log(JSON.stringify(result));\n"
    (tmp_path / "case.mjs").write_text(code, encoding="utf-8")
    done = subprocess.run(
        [deno, "run", "--allow-net", "--no-remote", "case.mjs"],
        cwd=tmp_path,
        capture_output=True,
        text=True,
        check=False,
        timeout=300,
    )
    assert done.returncode == 0, done.stderr
    check(json.loads(done.stdout), policy, "deno")
