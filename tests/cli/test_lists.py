"""Lists on the command line: parts with commas between them, those with commas in them in quotes."""

import json

import pytest
from typer.testing import CliRunner

from sparing.cli import app
from sparing.cli.options import words
from sparing.errors import SettingError


@pytest.mark.parametrize(
    ("text", "parts"),
    [
        ("", []),
        ("a, b ,c,", ["a", "b", "c"]),
        ('"a,b",c', ["a,b", "c"]),
        ('c, "a,b"', ["c", "a,b"]),
        ('"5"" pipe",c', ['5" pipe', "c"]),
        ('5" pipe,c', ['5" pipe', "c"]),
    ],
)
def test_parts(text, parts):
    assert words(text) == parts


@pytest.mark.parametrize("text", ['"a,b', '"a"b,c', 'c,"'])
def test_a_wrong_quote_is_told(text):
    with pytest.raises(SettingError) as refused:
        words(text, "item_features")
    assert str(refused.value).startswith(f"--item-features {text}: a double quote that is not closed")


def test_labels_with_commas(tmp_path):
    log = tmp_path / "log.csv"
    log.write_text(
        "age,action,reward\n"
        + "".join(f"{i},{['z', chr(34) + 'x,y' + chr(34)][i % 2]},{i % 3}\n" for i in range(40))
    )
    done = CliRunner().invoke(app, ["audit", str(log), "--actions", '"x,y",z,never', "--json"])
    assert done.exit_code == 0, done.output
    assert json.loads(done.stdout)["counts"] == {"x,y": 20, "z": 20, "never": 0}
