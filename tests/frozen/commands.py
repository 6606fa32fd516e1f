"""The command line, run in this process: what each command prints, and its exit code."""

import contextlib
import io
import os
import shutil
import sys
import warnings
from unittest import mock

from frozen.cases import LOGS, METHODS

READ = {
    "numbers.parquet": [],
    "raw.csv": ["--action", "banner", "--reward", "clicked"],
    "euro.csv": (
        [
            "--action",
            "banner",
            "--reward",
            "clicked",
            "--propensity",
            "p",
            "--decimal",
            ",",
            "--delimiter",
            ";",
        ]
    ),
    "clicks.vw": [],
    "clicks.dsjson": [],
    "clicks.npz": [],
    "open_bandit.csv": [],
}
"""The logs that commands run on, with the options that read them."""

EVERY = [
    "audit",
    "learn",
    "evaluate",
    "plan",
    "serve",
    "convert",
    "verify",
    "backup",
    "keys",
    "warm-up",
    "demo",
]


def cases():
    """Every command line, by a name: its words. Those on logs run in a folder with the logs."""
    found = {}
    for log, options in READ.items():
        short = log.replace(".", "_")
        found[f"audit-{short}"] = ["audit", log, *options]
        found[f"evaluate-{short}"] = ["evaluate", log, "--policy", "uniform", *options]
    numbers, raw = "numbers.parquet", ["raw.csv", *READ["raw.csv"]]
    found |= {
        "audit-scanned": [
            "audit",
            numbers,
            "--engine",
            "local",
            "--policy",
            "action:a1",
            "--reward-range",
            "-3,3",
        ],
        "audit-gate": ["audit", numbers, "--fail-on", "unsupported_share>0.2", "--gaps", "3"],
        "evaluate-scanned": ["evaluate", numbers, "--policy", "uniform", "--engine", "local"],
        "evaluate-gate": ["evaluate", numbers, "--policy", "uniform", "--fail-above", "0.1"],
        "evaluate-model": ["evaluate", numbers, "--policy", "action:a1", "--band", "model", "--clip", "5"],
        "evaluate-estimated": ["evaluate", *raw, "--policy", "uniform", "--estimate-support"],
        # Before 0.3 no support was estimated by default.
        "learn-raw": ["learn", *raw, "--out", "raw.sparing", "--no-estimate-support"],
        "learn-estimated": [
            "learn",
            *raw,
            "--estimate-support",
            "--method",
            "opr",
            "--out",
            "raw-opr.sparing",
        ],
        "evaluate-raw-policy": ["evaluate", *raw, "--policy", "raw.sparing"],
        "learn-refused": [
            "learn",
            *raw,
            "--method",
            "pi-plus",
            "--out",
            "none.sparing",
            "--no-estimate-support",
        ],
        "audit-missing": ["audit", "nothing.csv"],
        "plan-numbers": [
            "plan",
            numbers,
            "--worlds",
            "19",
            "--call-cost",
            "0.02",
            "--horizon",
            "150",
            "--workers",
            "1",
        ],
        "plan-raw": [
            "plan",
            *raw,
            "--worlds",
            "19",
            "--horizon",
            "100",
            "--workers",
            "1",
            "--learners",
            "confident,certified",
        ],
        "learn-few-contexts": ["learn", "clicks.dsjson", "--out", "few.sparing"],
        "evaluate-few-contexts": ["evaluate", "clicks.dsjson", "--policy", "few.sparing"],
        "demo": ["demo", "--seeds", "1", "--out", "demo"],
        "warm-up": ["warm-up"],
    }
    for interval in ("bootstrap", "block-bootstrap", "bernstein"):
        words = ["evaluate", numbers, "--policy", "uniform", "--interval", interval]
        found[f"evaluate-{interval}"] = words
    for method in METHODS:
        found[f"learn-{method}"] = ["learn", numbers, "--method", method, "--out", f"{method}.sparing"]
        if method in ("greedy", "pessimistic", "opr"):
            found[f"evaluate-{method}"] = ["evaluate", numbers, "--policy", f"{method}.sparing"]
    for target in ("table.parquet", "table.csv", "table.arrow", "to.vw", "to.adf", "to.dsjson", "to.npz"):
        found[f"convert-{target.replace('.', '_')}"] = ["convert", numbers, target]
    for source in (
        "clicks.adf",
        "clicks.dsjson",
        "clicks.npz",
        "open_bandit.csv",
        "coba.jsonl",
        "river.jsonl",
        "vw.jsonl",
    ):
        found[f"convert-{source.replace('.', '_')}"] = [
            "convert",
            source,
            f"{source.split('.')[0]}-read.parquet",
        ]
    return found


SLOW = ("learn-auto", "learn-boosted", "learn-stacked", "plan-numbers", "plan-raw", "demo")
"""Cases of seconds: they run with `-m thorough`."""


def helps():
    """The help of every command, by a name."""
    return {"help": ["--help"], **{f"help-{name}": [name, "--help"] for name in EVERY}}


def run(words):
    """Exit code, output and errors of a command line."""
    from sparing.cli import main

    out, errors = io.StringIO(), io.StringIO()
    code = 0
    environment = {name: value for name, value in os.environ.items() if name != "COLUMNS"}
    with (
        mock.patch.object(sys, "argv", ["sparing", *map(str, words)]),
        mock.patch.dict(os.environ, environment, clear=True),
        contextlib.redirect_stdout(out),
        contextlib.redirect_stderr(errors),
        warnings.catch_warnings(),
    ):
        warnings.simplefilter("ignore")
        try:
            main()
        except SystemExit as left:
            code = left.code or 0
    return code, out.getvalue(), errors.getvalue()


@contextlib.contextmanager
def beside_logs(folder):
    """In a folder with copies of the recorded logs."""
    folder.mkdir(parents=True, exist_ok=True)
    for path in LOGS.iterdir():
        shutil.copy(path, folder)
    with contextlib.chdir(folder):
        yield folder
