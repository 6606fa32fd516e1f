"""What is said of files and tables as people have them, and cannot be read."""

import zipfile

import pandas as pd
import polars as pl
import pytest

import sparing
from sparing.errors import DecisionError, LogError

ROLES = {"action": "offer", "reward": "sale"}
TABLE = "day,offer,sale\n1,Köln,1\n2,Bern,0\n"


def refused(source, **roles):
    with pytest.raises(LogError) as error:
        sparing.read_log(source, **{**ROLES, **roles})
    return str(error.value)


def test_an_encoding_that_shows_late_is_named(tmp_path, monkeypatch):
    monkeypatch.setattr("sparing.log.tables.CSV_BLOCK", 2**10)
    path = tmp_path / "log.csv"
    path.write_bytes(TABLE.encode() + b"3,Bern,1\n" * 1000 + "3,Köln,1\n".encode("latin-1"))
    assert "is not text in UTF-8" in refused(path)


def test_a_workbook_is_named_whatever_its_ending(tmp_path):
    for name in ("book.csv", "book.xlsx"):
        with zipfile.ZipFile(tmp_path / name, "w") as book:
            book.writestr("xl/workbook.xml", "ä" * 100)
        said = {"book.csv": "rename it to .xlsx", "book.xlsx": "cannot be read as a spreadsheet"}
        assert said[name] in refused(tmp_path / name)
    (tmp_path / "log.json").write_text('{"day": 1, "offer": "a", "sale": 1}\n')
    assert "rename it to .jsonl" in refused(tmp_path / "log.json")


@pytest.mark.parametrize(
    ("head", "role", "asked", "mend"),
    [
        ("offer ", "action", "offer", "Did you mean 'offer '? Pass action='offer '"),
        ("OFFER", "action", "offer", "Did you mean 'OFFER'? Pass action='OFFER'"),
        ("ofer", "action", "offer", "Did you mean 'ofer'? Pass action='ofer'"),
        ("Propensity", "propensity", "propensity", "Did you mean 'Propensity'? Pass propensity='Propensity'"),
        (" Propensity", "propensity", "propensity", ", or propensity=None if there is no such column"),
        ("Eligible", "eligible", "eligible", "Did you mean 'Eligible'? Pass eligible='Eligible'"),
        ("CONTEXT_ID", "context_id", "context_id", "Did you mean 'CONTEXT_ID'? Pass context_id='CONTEXT_ID'"),
        ("chances", "propensity", "chance", "Did you mean 'chances'? Pass propensity='chances'"),
        ("who", "context_id", "user", "it has 'day', 'offer', 'sale', 'who'. Pass context_id=NAME"),
    ],
)
def test_a_header_in_another_case_or_with_spaces_is_reported(head, role, asked, mend):
    table = {
        "day": [1, 2],
        "offer": ["a", "b"],
        "sale": [0, 1],
        head: ["a", "b"] if role == "action" else [1, 1],
    }
    if role == "action":
        del table["offer"]
    said = refused(table, **{role: asked})
    assert f"has no {role.replace('_', ' ')} column '{asked}'; it has " in said
    assert mend in said


def test_columns_that_policies_and_learners_know_are_named_among_those_that_exist():
    table = {"day": [1, 2, 5], "City": ["x", "y", "x"], "offer": ["a", "b", "a"], "sale": [0, 1, 0]}
    log = sparing.read_log(table, **ROLES)
    other = {"day ": table["day"], "CITY": table["City"], "offer": table["offer"], "sale": table["sale"]}
    assert "Did you mean 'day ', 'CITY'? Name columns as the table does" in refused(
        other, features=log.encoder
    )
    learner = sparing.confident(log)
    guess = "did you mean 'day' by 'Day', 'City' by 'city '\\? The columns are 'day', 'City'. Give"
    with pytest.raises(DecisionError, match=guess):
        learner.decide({"Day": 1, "city ": "x"})
    with pytest.raises(DecisionError, match=r"no column 'City' and unknown column 'size'; the columns are"):
        learner.decide({"day": 1, "size": "x"})


@pytest.mark.parametrize("cell", ["n/a", "5 kg", "1.0.0", "3 € %"])
def test_a_reward_that_is_no_number_is_no_feature(tmp_path, cell):
    path = tmp_path / "log.csv"
    path.write_text(TABLE.replace(",0\n", f',"{cell}"\n'))
    said = refused(path)
    assert said.startswith(f"sale at row 1 is '{cell}', not a number. Write a number")
    assert "feature" not in said


def test_the_keyword_that_leaves_propensities_out_is_the_readers():
    table = {"day": [1, 2], "offer": ["a", "b"], "sale": [0, 1], "propensity": [0.5, 0.0]}
    assert "propensity=None" in refused(table)
    assert sparing.read_log(table, **ROLES, propensity=None).propensities is None


def test_a_header_that_is_not_on_the_first_line(tmp_path):
    path = tmp_path / "log.csv"
    path.write_text(f"\r\n\n{TABLE}")
    assert sparing.read_log(path, **ROLES).n_rows == 2
    for above in ("Export of sales\n", "sep=;\n", ""):
        path.write_text(above + (TABLE if above else TABLE.replace(",", " ").replace("day", "tag")))
        assert refused(path).endswith(
            "The first line must name the columns, and delimiter='…' sets the character between cells"
        )


def test_names_that_are_no_texts():
    frame = pd.DataFrame([[1, "a", 0], [2, "b", 1]])
    assert refused(frame, action=1, reward=2).endswith("Did you mean '1'? Pass action='1'")
    assert "has no reward column None; it has" in refused(
        pd.DataFrame({"day": [1], "offer": ["a"]}), reward=None
    )


def test_tables_in_memory():
    assert refused(pd.Series([1])).endswith("This is one column; pass the frame that it is of")
    assert refused(pl.LazyFrame({"day": [1]})).endswith("Collect it first, with its collect()")
    rows = [{"day": 1, "offer": "a", "sale": 1}]
    assert refused(rows).endswith("For a list of rows use pandas.json_normalize(rows)")
    assert "has no action column 'offer'; it has no columns" in refused(pd.DataFrame())
    odd = refused(pd.DataFrame({"offer": ["a", "b"], "sale": [1.0, "n/a"]}))
    assert "'n/a'" in odd
    assert "column sale" in odd
    assert "no context column 'dya';" in refused({"day": [1], "offer": ["a"], "sale": [1]}, contexts=["dya"])


def test_a_header_alone(tmp_path):
    path = tmp_path / "log.csv"
    path.write_text("day,offer,sale\n")
    assert "has no rows with an action; expected a row for each decision" in refused(path)


@pytest.mark.parametrize(("yes", "no"), [("True", "False"), ("yes", "no"), ("t", "f"), (" TRUE ", "false")])
def test_a_reward_that_is_true_or_false_in_a_text_file_is_1_or_0_as_in_a_frame(tmp_path, yes, no):
    path = tmp_path / "log.csv"
    path.write_text(TABLE.replace(",1\n", f",{yes}\n").replace(",0\n", f",{no}\n"))
    assert sparing.read_log(path, **ROLES).rewards.tolist() == [1.0, 0.0]
    frame = pd.DataFrame({"day": [1, 2], "offer": ["a", "b"], "sale": [True, False]})
    assert sparing.read_log(frame, **ROLES).rewards.tolist() == [1.0, 0.0]
