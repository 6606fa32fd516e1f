"""Errors speak of options at the prompt, and of keywords in Python."""

import re
import shlex
import sys

import pytest

from sparing.cli import main
from sparing.cli.terminal import as_cli_options


@pytest.mark.parametrize(
    ("message", "shown"),
    [
        ("no action column 'action'. Pass action=NAME", "no action column 'action'. Pass --action NAME"),
        (
            "read the table with features='auto', or choose contexts=[...]",
            "read the table with --features auto, or choose --contexts ...",
        ),
        ("reward_range=(0, 1); must be", "--reward-range 0,1; must be"),
        ("'Reward '? Pass reward='Reward '", "'Reward '? Pass --reward 'Reward '"),
        ("Pass prior_scale=..., the deviation", "Pass --prior-scale ..., the deviation"),
        ("(holdout=0.3), or", "(--holdout 0.3), or"),
        ("pass context_id=None, or fill it in", "pass --context-id '', or fill it in"),
        ("the feature country=NZ stays", "the feature country=NZ stays"),
        ("tolerance=0.5; must be", "--tolerance 0.5; must be"),
        ("a = b and x=1.5.", "a = b and x=1.5."),
    ],
)
def test_settings_are_named_as_options(message, shown):
    assert as_cli_options(message) == shown


def test_only_options_of_the_command_itself_are_named():
    assert as_cli_options("ridge=-1; must be", ["plan", "log.csv"]) == "--ridge -1; must be"
    assert as_cli_options("country=NZ; must be", ["learn", "log.csv"]) == "country=NZ; must be"
    assert as_cli_options("role='boss'; must be", ["keys", "add"]) == "--role boss; must be"


def test_settings_that_go_by_option_are_named_so():
    assert as_cli_options("Pass action=NAME", ["convert", "log.csv"]) == "Pass --option action=NAME"
    assert as_cli_options("ridge=-1; must be", ["learn", "log.csv"]) == "--option ridge=-1; must be"
    assert as_cli_options("such as --option ridge=0.1", ["learn", "log.csv"]) == "such as --option ridge=0.1"
    assert as_cli_options("contexts=[...] with", ["convert", "log.csv"]) == "--option contexts=... with"


def test_a_flag_has_no_value():
    assert as_cli_options("estimate_support=True needs", ["learn", "log.csv"]) == "--estimate-support needs"


ROLES = ["--action", "banner", "--reward", "clicked"]
WRONG = {
    "audit": [
        ("", "--action NAME"),
        ("--action banner", "--reward NAME"),
        ("--action banner --reward banner", "--action banner and --reward banner: one column"),
        ("--error -1", "--error -1.0"),
        ("--rare 2", "--rare 2.0"),
        ("--confidence 7", "--confidence 7.0"),
        ("--reward-range 1,0", "--reward-range 1.0,0.0"),
        ("--reward-range x", "--reward-range x"),
        ("--policy nix", "--policy nix"),
        ("--engine nix", "--engine nix"),
        ("--features raw", "--contexts"),
        ("--decimal x", "--decimal x"),
        ("--delimiter ab", "--delimiter ab"),
        ("--fail-on foo", "METRIC OP NUMBER"),
        ("--noise -3", "--noise -3.0"),
    ],
    "learn": [
        ("--method nix", "--method nix"),
        ("--method opr", "--estimate-support"),
        ("--holdout 1.5", "--holdout 1.5"),
        ("--option ridge", "--option ridge=0.1"),
        ("--option ridge=-1", "--option ridge=-1"),
        ("--option foo=1", "no option 'foo'"),
        ("--out nowhere/p.sparing", "Create it first"),
        ("--sample 10 --estimate-support", "--estimate-support and a sample"),
    ],
    "evaluate": [
        ("--policy uniform --interval nix", "--interval nix"),
        ("--policy uniform --band nix", "--band nix"),
        ("--policy uniform --training-rows nix", "--training-rows nix"),
        ("--policy uniform --methods nix", "known are dm"),
        ("--policy action:nix", "unknown action 'nix'"),
        ("--policy action:nix", "List all actions with --actions"),
    ],
    "plan": [
        ("--worlds 3", "--worlds 3"),
        ("--call-cost -1", "--call-cost -1.0"),
        ("--tolerances x", "--tolerances x"),
        ("--learners nix", "--learners nix"),
        ("--prior-scale -1", "--prior-scale -1.0"),
    ],
    "serve": [
        ("--call-cost -1", "--call-cost -1.0"),
        ("", "(--call-cost 0.05), or how many may be asked for (--option calls=500)"),
        ("--learner nix", "--learner nix"),
        ("--durability nix", "--durability nix"),
        ("--call-cost 1 --rule nix=1", "--rule"),
    ],
    "convert": [
        ("", "--option action=NAME"),
        ("--option action", "--option action=banner"),
        ("--option action=banner --option reward=clicked --option decimal=x", "--option decimal=x"),
        ("--from nix", "unknown format 'nix'"),
    ],
    "keys": [("--role nix", "--role nix"), ("--role admin", "choose another name")],
}


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    folder = tmp_path_factory.mktemp("words")
    rows = "".join(f"{20 + i},{'ab'[i % 2]},{i % 3 // 2}\n" for i in range(60))
    (folder / "log.csv").write_text(f"age,banner,clicked\n{rows}")
    return folder


@pytest.mark.parametrize("command", WRONG)
def test_no_error_speaks_python(command, folder, monkeypatch, capsys):
    """One line each that names an option as it is typed, and never a keyword of the library's."""
    monkeypatch.chdir(folder)
    for words, told in WRONG[command]:
        given = shlex.split(words)
        roles = [] if "--action" in given or told.endswith("NAME") else ROLES
        whole = {
            "serve": ["serve", "store", "--name", "x", "--log", "log.csv", *roles, *given],
            "convert": ["convert", "log.csv", "out.parquet", *given],
            "keys": ["keys", "add", "store", "k", *given],
        }.get(command, [command, "log.csv", *roles, *given])
        if told == "choose another name":
            said(["keys", "add", "store", "k"], monkeypatch, capsys)
        code, error = said(whole, monkeypatch, capsys)
        assert code == 2, whole
        assert told in error, whole
        assert error.startswith("sparing: ")
        assert error.count("\n") == 1
        keyword = re.search(r"(?<!--option )\b[a-z_]+=[^ ]", error)
        assert keyword is None, error


def said(words, monkeypatch, capsys):
    monkeypatch.setattr(sys, "argv", ["sparing", *words])
    with pytest.raises(SystemExit) as left:
        main()
    lines = capsys.readouterr().err.splitlines(keepends=True)
    return left.value.code or 0, "".join(line for line in lines if not line.startswith("sparing: features"))
