"""The roles of columns are declared once: every keyword and option comes from there."""

import inspect
from dataclasses import fields

import pytest
import typer

import other_formats
import sparing
from sparing.cli import app
from sparing.errors import LogError
from sparing.log.columns import ColumnKeywords, ColumnRoles
from sparing.log.text_files import Dialect

DIALECT = [each.name for each in fields(Dialect)]
ROLES = {role.name: role.default for role in fields(ColumnRoles)}


def test_types_and_values_name_the_same_roles():
    assert list(ColumnKeywords.__annotations__) == list(ROLES)


@pytest.mark.parametrize(
    ("function", "others"),
    [
        (
            sparing.read_log,
            ["actions", "format", "features", "items", "item_features", *DIALECT, "notes"],
        ),
        (
            sparing.scan,
            [
                "actions",
                "format",
                "features",
                "items",
                "item_features",
                *DIALECT,
                "engine",
                "workers",
                "progress",
            ],
        ),
    ],
)
def test_signatures_show_every_role_with_its_default(function, others):
    parameters = inspect.signature(function).parameters
    assert list(parameters) == ["source", *ROLES, *others]
    assert {name: parameters[name].default for name in ROLES} == ROLES
    with pytest.raises(TypeError, match="unexpected keyword argument 'rewards'"):
        function({"x_0": [1.0], "action": [1], "reward": [1.0]}, rewards="reward")


def test_an_option_that_does_not_fit_the_format_is_named():
    with pytest.raises(
        LogError, match=r"an option does not fit table: it has no 'position'; known are contexts, action,"
    ):
        other_formats.read({"x_0": [1.0], "action": [1], "reward": [1.0]}, position=1)


@pytest.mark.parametrize(
    ("command", "roles"),
    [("audit", ROLES), ("evaluate", ROLES), ("learn", ROLES), ("plan", ROLES)],
)
def test_commands_have_an_option_for_each_role(command, roles):
    options = {each.name: each for each in typer.main.get_command(app).commands[command].params}
    assert {name: options[name].default for name in ROLES if name in options} == {
        name: ROLES[name] or "" for name in roles
    }
    assert all(options[name].help for name in roles)


@pytest.mark.parametrize("call", [sparing.read_log, sparing.scan])
def test_a_keyword_that_is_no_role_is_named_with_those_that_are(call):
    with pytest.raises(TypeError, match="'acton'; columns are named by contexts, action, reward"):
        call({"action": [1], "reward": [1.0], "x_0": [1.0]}, acton="action")
