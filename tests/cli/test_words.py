"""Errors speak of options at the prompt, and of keywords in Python."""

import pytest

from sparing.cli.terminal import in_options


@pytest.mark.parametrize(
    ("message", "shown"),
    [
        ("no action column 'action'. Pass action=NAME", "no action column 'action'. Pass --action NAME"),
        (
            "read the table with features='auto', or choose contexts=[...]",
            "read the table with --features auto, or choose --contexts ...",
        ),
        ("reward_range=(0, 1); must be", "--reward-range 0,1; must be"),
        ("Pass prior_scale=..., the deviation", "Pass --prior-scale ..., the deviation"),
        ("(holdout=0.3), or", "(--holdout 0.3), or"),
        ("pass context_id=None, or fill it in", "pass --context-id '', or fill it in"),
        ("the feature country=NZ stays", "the feature country=NZ stays"),
        ("tolerance=0.5; must be", "--tolerance 0.5; must be"),
        ("a = b and x=1.5.", "a = b and x=1.5."),
    ],
)
def test_settings_are_named_as_options(message, shown):
    assert in_options(message) == shown


def test_only_options_of_the_command_itself_are_named():
    message = "expected NAME=VALUE, such as ridge=0.1"
    assert in_options(message, ["learn", "log.csv"]) == message
    assert in_options("ridge=-1; must be", ["plan", "log.csv"]) == "--ridge -1; must be"
