"""Record the fixtures: `PYTHONPATH=src:.:tests python -m frozen.record` in a checkout of the release to freeze.

With names of parts (`learners policies logs hashes traces commands stores postgres`) only these are recorded.
"""

import gzip
import json
import shutil
import sys
import tempfile
from pathlib import Path
from unittest import mock

import numpy as np

import sparing
from frozen import cases, commands, internals, stores
from frozen.cases import DATA, LOGS, TEXT


def save(name, found):
    """Write what was found as JSON."""
    DATA.mkdir(exist_ok=True)
    text = json.dumps(found, indent=1, sort_keys=True, ensure_ascii=False)
    if len(text) > 20_000:
        (DATA / f"{name}.json.gz").write_bytes(gzip.compress(text.encode(), mtime=0))
    else:
        (DATA / f"{name}.json").write_text(text + "\n", encoding="utf-8")


def logs():
    """The logs as files, what reading them gives, and an encoder."""
    LOGS.mkdir(parents=True, exist_ok=True)
    numbers = cases.log_of(20, rows=300, distinct=160)
    for name in ("numbers.parquet", "numbers.csv", "numbers.arrow"):
        sparing.write_log(numbers, LOGS / name)
    sparing.write_log(cases.log_of(21, rows=250, distinct=150, ids=True), LOGS / "ids.parquet")
    rng = np.random.default_rng(0)
    raw, euro = ["age,device,banner,clicked"], ["age;device;price;banner;p;clicked"]
    for i in range(800):
        age, device = rng.integers(18, 80), rng.choice(["phone", "desk", "tablet"])
        banner = str(rng.choice(["red", "green", "blue"], p=[0.6, 0.3, 0.1]))
        clicked = int(rng.random() < 0.2 + 0.4 * (banner == "green"))
        raw.append(f"{age},{device},{banner},{clicked}")
        if i >= 200:
            continue
        p = {"red": "0,6", "green": "0,3", "blue": "0,1"}[banner]
        euro.append(
            f"{age};{device};{rng.integers(100, 999) / 100:.2f};{banner};{p};{clicked}".replace(".", ",")
        )
    (LOGS / "raw.csv").write_text("\n".join(raw) + "\n", encoding="utf-8")
    (LOGS / "euro.csv").write_text("\n".join(euro) + "\n", encoding="utf-8")
    bandit = [",timestamp,item_id,position,click,propensity_score,user_feature_0,user_feature_1"]
    for i in range(200):
        item, place = rng.integers(0, 4), rng.integers(1, 4)
        first, second = rng.choice(["cef3", "81ce"]), rng.choice(["03a5", "2d03"])
        clicked = int(rng.random() < 0.1 + 0.1 * item)
        bandit.append(
            f"{i},2019-11-24 00:{i // 60:02}:{i % 60:02},{item},{place},{clicked},0.25,{first},{second}"
        )
    (LOGS / "open_bandit.csv").write_text("\n".join(bandit) + "\n", encoding="utf-8")
    small = LOGS / "small.parquet"
    sparing.write_log(cases.log_of(22, rows=120, distinct=40, n_actions=4, n_features=2), small)
    for target, to in (
        ("clicks.vw", "vw"),
        ("clicks.adf", "vw-adf"),
        ("clicks.dsjson", "dsjson"),
        ("clicks.npz", "obp"),
        ("vw.jsonl", "vw-json"),
        ("coba.jsonl", "coba"),
        ("river.jsonl", "river"),
    ):
        code, _, errors = commands.run(["convert", small, LOGS / target, "--to", to])
        assert code == 0, errors
    small.unlink()
    save("logs", {name: cases.log_facts(cases.read(name)) for name in cases.READ})
    encoder = encoder_of()
    sparing.write_features(encoder, DATA / "encoder.json")
    save("encoded", [encoder.encode(row).tolist() for row in cases.RAW_ROWS])


def encoder_of():
    """An encoder of numbers, words, moments and missing values."""
    rng = np.random.default_rng(3)
    rows = {
        "age": [None if i % 9 == 8 else int(rng.integers(18, 80)) for i in range(90)],
        "device": [str(rng.choice(["phone", "desk", "tablet"])) for _ in range(90)],
        "when": [f"2026-{i % 12 + 1:02}-{i % 28 + 1:02} {i % 24:02}:15:00" for i in range(90)],
        "spent": [round(float(rng.gamma(2, 10)), 2) for _ in range(90)],
        "action": [str(rng.choice(["x", "y"])) for _ in range(90)],
        "reward": rng.integers(0, 2, 90).tolist(),
    }
    return sparing.read_log(rows, features="auto").encoder


def learners():
    """Saved learners, and what they decide next."""
    folder = DATA / "learners"
    folder.mkdir(parents=True, exist_ok=True)
    found = {}
    for name in cases.VARIANTS:
        learner, facts = cases.grown(name)
        path = folder / f"{name}.sparing"
        learner.save(path)
        found[name] = {**facts, "next": cases.go_on(sparing.load(path), json.loads(json.dumps(facts)))}
        print(
            name, facts["changed"], len(facts["pending"]), found[name]["next"]["reasons"], path.stat().st_size
        )
    save("learners", found)


def policies():
    """Saved policies, and what they answer."""
    folder = DATA / "policies"
    folder.mkdir(parents=True, exist_ok=True)
    found = {}
    for method in cases.METHODS:
        policy = sparing.learn(cases.policy_log(), method, holdout=0.3, seed=1)
        path = folder / f"{method}.sparing"
        sparing.save_policy(policy, path)
        found[method] = cases.probabilities(sparing.load_policy(path)).tolist()
        print(method, path.stat().st_size)
    save("policies", found)


def hashes():
    """Words of every hash, and what identifies the rows of logs."""
    np.savez_compressed(DATA / "hashes.npz", **internals.hash_tables())
    found = {}
    for name in cases.IDENTIFIED:
        for key, array in internals.log_identity(cases.read(name)).items():
            found[f"{name}/{key}"] = np.packbits(array) if array.dtype == bool else array
    np.savez_compressed(DATA / "identities.npz", **found)


def traces():
    """Digests of 5,000 rounds of each algorithm, and of simulations, with what compiled them."""
    save("versions", cases.versions())
    save("simulated", cases.simulated())
    save("traces", {name: cases.trace(name) for name in cases.LEARNERS})


def command_lines():
    """What every command prints."""
    TEXT.mkdir(exist_ok=True)
    found = {}
    with tempfile.TemporaryDirectory() as folder, commands.beside_logs(Path(folder) / "logs"):
        for name, words in commands.cases().items():
            code, out, errors = commands.run(words)
            _read_later(name, words, code, out, errors)
            exact, printed, _ = commands.run([*words, "--json"])
            found[name] = {"code": code, "json_code": exact, "text": out}
            found[name]["json"] = json.loads(printed) if printed.strip() else None
        for name, words in commands.helps().items():
            code, out, errors = commands.run(words)
            _read_later(name, words, code, out, errors)
            found[name] = {"code": code, "help": out}
    save("commands", found)


def _read_later(name, words, code, out, errors):
    told = errors if code else ""
    text = f"$ sparing {' '.join(map(str, words))}\n{out}{told}[exit code {code}]\n"
    (TEXT / f"{name}.txt").write_text(text, encoding="utf-8")


def sqlite():
    """A store in SQLite, what `verify` and a start say of it, and the OpenAPI document."""
    from service.serving import running
    from sparing.service.server import ServerSettings

    with tempfile.TemporaryDirectory() as folder:
        store = Path(folder) / "store"
        with running(ServerSettings(store, durability="process")) as url:
            stores.fill(url)
        stores.pack(store, DATA / "store.tar.gz")
        copy = stores.unpack(DATA / "store.tar.gz", Path(folder) / "copy")
        found, told = stores.verified(copy)
        TEXT.mkdir(exist_ok=True)
        _read_later("verify", ["verify", "store"], *told)
        save("store", {"verify": found, "text": told[1]})
        for kind, answers in stores.started(copy).items():
            save(f"store_{kind}", answers)
        store = Path(folder) / "rebased"
        with (
            mock.patch(".".join(internals.ENGINE_STAMP), return_value="0123456789abcdef"),
            running(ServerSettings(store, durability="process")) as url,
        ):
            stores.fill_little(url, 40, make=True)
        for _ in range(2):
            with running(ServerSettings(store, durability="process")) as url:
                stores.fill_little(url, 40)
        stores.pack(store, DATA / "rebased.tar.gz")
        save("rebased", stores.verified(store)[0])


def postgres():
    """The same in PostgreSQL: its folder, and the database as SQL."""
    from service.clusters import Cluster
    from service.serving import running
    from sparing.service.server import ServerSettings

    cluster = Cluster()
    try:
        with tempfile.TemporaryDirectory() as folder:
            store, address = Path(folder) / "store", cluster.database("")
            with running(ServerSettings(store, address, durability="process")) as url:
                stores.fill(url)
            stores.pack(store, DATA / "postgres.tar.gz")
            text = stores.dump(cluster, address.rsplit("/", 1)[1])
            (DATA / "postgres.sql.gz").write_bytes(gzip.compress(text.encode(), mtime=0))
            found, _ = stores.verified(store, address)
            save("postgres", {"verify": found, "about": stores.started(store, address)["about"]})
    finally:
        cluster.remove()


PARTS = {
    "logs": logs,
    "learners": learners,
    "policies": policies,
    "hashes": hashes,
    "traces": traces,
    "commands": command_lines,
    "stores": sqlite,
    "postgres": postgres,
}


def main(names):
    """Record the named parts, or all."""
    print("recording", sparing.__file__)
    if not names:
        shutil.rmtree(DATA, ignore_errors=True)
        shutil.rmtree(TEXT, ignore_errors=True)
    for name in names or PARTS:
        PARTS[name]()
        print("recorded", name, flush=True)


if __name__ == "__main__":
    main(sys.argv[1:])
