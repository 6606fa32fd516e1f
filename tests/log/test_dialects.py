"""Text files as spreadsheets write them: semicolons, tabs, packed, with decimal commas, in folders; numbers never become words unsaid."""

import base64
import gzip

import numpy as np
import pytest
from typer.testing import CliRunner

import sparing
from sparing.cli import app
from sparing.errors import LogError, SettingError

ROLES = {"action": "banner", "reward": "clicked"}
ROWS = [
    (f"{age}", f"{age / 7:.2f}", ["red; big", "a, b", "tab\there"][age % 3], age % 2) for age in range(20, 80)
]
HEADER = ("age", "spend", "banner", "clicked")


def text(mark, *, decimal=".", quoted=False):
    """The same table, its cells parted by a mark."""

    def cell(value):
        value = str(value).replace(".", decimal)
        return f'"{value}"' if quoted or any(each in value for each in ',;"\t|') else value

    return "\n".join(mark.join(map(cell, row)) for row in (HEADER, *ROWS)) + "\n"


@pytest.fixture
def plain(tmp_path):
    path = tmp_path / "plain.csv"
    path.write_text(text(","))
    return sparing.read_log(path, **ROLES)


def same(one, two):
    assert one.action_names == two.action_names
    assert one.feature_names == two.feature_names
    for name in ("contexts", "actions", "rewards"):
        assert np.array_equal(getattr(one, name), getattr(two, name))


@pytest.mark.parametrize("quoted", [False, True])
@pytest.mark.parametrize(
    ("mark", "name"), [(",", "a.csv"), (";", "a.csv"), ("\t", "a.csv"), ("\t", "a.tsv"), (";", "a.csv.gz")]
)
def test_the_header_line_tells_what_parts_the_cells(tmp_path, plain, mark, name, quoted):
    content = text(mark, quoted=quoted).encode()
    (tmp_path / name).write_bytes(gzip.compress(content) if name.endswith("gz") else content)
    same(sparing.read_log(tmp_path / name, **ROLES), plain)
    ((_, scanned),) = sparing.scan(tmp_path / name, workers=1, **ROLES).blocks()
    same(scanned, plain)


def test_any_other_character_is_named(tmp_path, plain):
    (tmp_path / "a.csv").write_text(text("|"))
    same(sparing.read_log(tmp_path / "a.csv", delimiter="|", **ROLES), plain)
    with pytest.raises(LogError, match="no action column"):
        sparing.read_log(tmp_path / "a.csv", **ROLES)


def test_a_named_delimiter_is_believed(tmp_path):
    """A header with more semicolons than commas, which are letters of a name."""
    (tmp_path / "a.csv").write_text("a;b;c;d;e,action,reward\n1,x,0\n2,y,1\n3,x,1\n")
    with pytest.raises(LogError, match="no action column"):
        sparing.read_log(tmp_path / "a.csv")
    assert sparing.read_log(tmp_path / "a.csv", delimiter=",").action_names == ("x", "y")


@pytest.mark.parametrize("wrong", ["", ";;", '"', "\n", "é", 3])
def test_what_cannot_part_cells_is_refused(tmp_path, wrong):
    with pytest.raises(SettingError, match="delimiter="):
        sparing.read_log(tmp_path / "a.csv", delimiter=wrong)


def test_decimal_commas_are_read(tmp_path, plain):
    (tmp_path / "a.csv").write_text(text(";", decimal=","))
    for given in ({}, {"decimal": ","}):
        same(sparing.read_log(tmp_path / "a.csv", **given, **ROLES), plain)
    with pytest.raises(SettingError, match="decimal='x'; must be"):
        sparing.read_log(tmp_path / "a.csv", decimal="x", **ROLES)


def test_raw_contexts_and_rewards_may_have_decimal_commas(tmp_path):
    (tmp_path / "a.csv").write_text("x_0;action;reward\n1,25;a;0,5\n2;b;1\n")
    log = sparing.read_log(tmp_path / "a.csv")
    assert log.rewards.tolist() == [0.5, 1]
    assert log.contexts.tolist() == [[1.25], [2]]


def test_words_with_commas_stay_words(tmp_path):
    rows = "".join(
        f"{word};{'ab'[i % 2]};{i % 2}\n" for i, word in enumerate(["1,2 and 3", "4,5", "x,y"] * 10)
    )
    (tmp_path / "a.csv").write_text(f"word;action;reward\n{rows}")
    assert "category of 3 values" in sparing.read_log(tmp_path / "a.csv").encoder.described()


def test_a_folder_is_read(tmp_path, plain):
    (tmp_path / "days").mkdir()
    lines = text(";").splitlines(keepends=True)
    (tmp_path / "days" / "1.csv").write_text("".join(lines[:31]))
    (tmp_path / "days" / "2.csv").write_text(
        text(",").replace("".join(text(",").splitlines(keepends=True)[1:31]), "")
    )
    same(sparing.read_log(tmp_path / "days", **ROLES), plain)


def test_a_tab_separated_file_is_written(tmp_path, plain):
    sparing.write_log(plain, tmp_path / "a.tsv")
    assert (tmp_path / "a.tsv").read_text().count("\t") >= 3 * len(ROWS)
    back = sparing.read_log(tmp_path / "a.tsv")
    assert np.array_equal(back.contexts, plain.contexts)


def test_other_formats_have_no_delimiter(tmp_path):
    (tmp_path / "a.vw").write_text("1:0.5:0.5 | x:1\n2:0.5:0.5 | x:2\n")
    with pytest.raises(LogError, match="delimiter, decimal, dates, encoding and sheet out"):
        sparing.read_log(tmp_path / "a.vw", delimiter=";")


def test_the_commands_take_both(tmp_path):
    (tmp_path / "a.csv").write_text(text("|", decimal=","))
    words = [
        "audit",
        str(tmp_path / "a.csv"),
        "--action",
        "banner",
        "--reward",
        "clicked",
        "--delimiter",
        "|",
    ]
    done = CliRunner().invoke(app, [*words, "--decimal", ",", "--actions", "red; big,other", "--json"])
    assert isinstance(done.exception, LogError)  # "a, b" is not among the actions
    done = CliRunner().invoke(app, [*words, "--decimal", ","])
    assert done.exit_code == 0, done.output
    assert "--delimiter '|'" in done.stdout
    assert "--decimal ," in done.stdout
    target = tmp_path / "b.parquet"
    options = [f"--option={each}" for each in ("action=banner", "reward=clicked", "delimiter=|")]
    done = CliRunner().invoke(app, ["convert", str(tmp_path / "a.csv"), str(target), *options])
    assert "decimal comma" in done.output


def test_an_upload_takes_both(plain):
    from sparing.service.http.experiments import read_upload
    from sparing.service.messages import LogUpload

    content = base64.b64encode(text(";", decimal=",").encode()).decode()
    same(read_upload(LogUpload(content, "a.csv", ROLES, decimal=",")), plain)
    content = base64.b64encode(text("|").encode()).decode()
    same(read_upload(LogUpload(content, "a.csv", ROLES, delimiter="|")), plain)


def test_labels_with_a_comma_stay_as_they_are(tmp_path):
    path = tmp_path / "spaced.csv"
    rows = [f'" {age},5";{"0,5" if age % 2 else "1,5"};{age % 2}' for age in range(20, 60)]
    path.write_text("\n".join(["age;banner;clicked", *rows]), encoding="utf-8")
    log = sparing.read_log(path, **ROLES)
    assert log.encoder.described().startswith("age: number, decimal comma")
    assert log.action_names == ("0,5", "1,5")
