"""The drill of docs/how-to/operate.md, its own commands, on a store that serves, retains for a while and has erased somebody."""

import os
import re
import subprocess
import sys
import threading
from pathlib import Path
from urllib.parse import urlsplit

import httpx
import pytest

from service.building import LOG
from service.clusters import PASSWORD, USER, find_programs
from service.test_command import Served, until
from sparing.log import write_log

PAGE = Path(__file__).parents[2] / "docs" / "how-to" / "operate.md"
OPTIONS = ("retention=2", "reward_window=2", "check=0.5", "explore=0.5")


def drill(store):
    """The commands of the page for a store, without the last, which serves."""
    (block,) = re.findall(
        rf'```sh title="{store}: the drill[^"]*"\n(.*?)```', PAGE.read_text(encoding="utf-8"), re.DOTALL
    )
    lines = block.strip().splitlines()
    assert "sparing serve monday" in lines[-1]
    return lines[:-1]


def asked(http, number):
    x = [0.1 * (number % 7), 0.05 * (number % 11), 0.5]
    body = {"context": x, "request_id": f"r{number}", "subject": f"s{number % 5}"}
    return http.post("/v1/trial/decide", json=body).raise_for_status().json()


def erased(http):
    """How many of the first decisions have no context any more."""
    page = http.get("/v1/trial/decisions?limit=100").json()["decisions"]
    return sum(one["value"] is None for one in page)


@pytest.mark.parametrize("store", ["SQLite", pytest.param("PostgreSQL", marks=pytest.mark.thorough)])
def test_the_drill_of_the_page(store, tmp_path, request):
    environment = {name: text for name, text in os.environ.items() if name != "SPARING_STORE"}
    programs, address = Path(sys.executable).parent, None
    environment["PATH"] = f"{programs}{os.pathsep}{find_programs()}{os.pathsep}{environment['PATH']}"
    if store == "PostgreSQL":
        cluster = request.getfixturevalue("cluster")
        address = cluster.database("")
        parts = urlsplit(address)
        environment |= {
            "PGHOST": parts.hostname,
            "PGPORT": str(parts.port),
            "PGUSER": USER,
            "PGPASSWORD": PASSWORD,
        }
        environment["SPARING_STORE"] = address
        cluster.execute("drop database if exists drill")
    write_log(LOG, tmp_path / "log.parquet")
    words = ["--name", "trial", "--log", tmp_path / "log.parquet", "--learner", "confident"]
    words += [word for option in OPTIONS for word in ("--rule", option)]
    served = Served(tmp_path / "shop", *words, **({} if address is None else {"SPARING_STORE": address}))
    over, numbers = threading.Event(), iter(range(1000, 10**6))

    def load():
        with httpx.Client(base_url=served.url, timeout=20) as http:
            while not over.is_set():
                answer = asked(http, next(numbers))
                if answer["needs_reward"]:
                    http.post(f"/v1/trial/decisions/{answer['decision_id']}/reward", json={"value": 0.5})

    thread = threading.Thread(target=load)
    try:
        for number in range(40):
            asked(served.http, number)
        served.http.post("/v1/trial/erase", json={"subject": "s3"}).raise_for_status()
        thread.start()
        until(lambda: erased(served.http) >= 40)
        served.http.patch("/v1/trial", json={"reward_window": 1e6, "retention": 1e6}).raise_for_status()
        pending = next(
            one for one in (asked(served.http, number) for number in range(100, 200)) if one["needs_reward"]
        )
        script = "\n".join(drill(store))
        if address is not None:
            script = script.replace(
                "postgresql://sparing@db.example.org/drill", f"{address.rpartition('/')[0]}/drill"
            )
        done = subprocess.run(
            ["bash", "-euxc", script],
            cwd=tmp_path,
            env=environment,
            capture_output=True,
            text=True,
            check=False,
        )
        assert done.returncode == 0, done.stdout + done.stderr
        assert "all as stored" in done.stdout
    finally:
        over.set()
        if thread.is_alive():
            thread.join()
        served.stop()
    restored = {} if address is None else {"SPARING_STORE": f"{address.rpartition('/')[0]}/drill"}
    copy = Served(tmp_path / "monday", **restored)
    try:
        again = asked(
            copy.http,
            next(n for n in range(100, 200) if asked(copy.http, n)["decision_id"] == pending["decision_id"]),
        )
        assert again == pending
        reward = copy.http.post(f"/v1/trial/decisions/{pending['decision_id']}/reward", json={"value": 0.5})
        assert reward.json()["status"] == "taken"
        assert erased(copy.http) >= 40
        assert asked(copy.http, 10**7)["decision_id"]
    finally:
        copy.stop()
