"""What is wrong with a row of a text file is reported with its line."""

import gzip

import pytest

import other_formats
import sparing
from sparing.errors import LogError

CASES = {
    "a value": ("log.csv", "age,action,reward\n1,x,1\n2,y,two\n", "Row 1 is line 3 of log.csv"),
    "nothing on a line": ("log.csv", "age,action,reward\n\n1,x,1\n\r\n2,,1\n", "Row 1 is line 5 of log.csv"),
    "a cell of two lines": ("log.csv", 'age,action,reward\n1,"x\nz",1\n2,y,\n', "Row 1 is line 4 of log.csv"),
    "semicolons": ("log.csv", "age;action;reward\n1;x;1\n2;y;\n", "Row 1 is line 3 of log.csv"),
    "packed": ("log.csv.gz", "age,action,reward\n1,x,1\n2,y,\n", "Row 1 is line 3 of log.csv.gz"),
    "JSON lines": (
        "log.jsonl",
        '{"age": 1, "action": "x", "reward": 1}\n\n{"age": 2, "action": "y"}\n',
        "Row 1 is line 3 of log.jsonl",
    ),
    "a propensity": (
        "log.csv",
        "age,action,reward,propensity\n1,x,1,0.5\n2,y,1,0\n",
        "Row 1 is line 3 of log.csv",
    ),
}


def scan_rows(path, **options):
    other_formats.opened(path, **options)[0].read()


def written(folder, name, text):
    raw = text.encode()
    (folder / name).write_bytes(gzip.compress(raw) if name.endswith(".gz") else raw)
    return folder / name


@pytest.mark.parametrize("case", CASES)
@pytest.mark.parametrize("scanned", [False, True])
def test_a_row_is_reported_with_its_line(tmp_path, case, scanned):
    name, text, said = CASES[case]
    path = written(tmp_path, name, text)
    with pytest.raises(LogError, match=r"at row 1\b") as refused:
        (scan_rows if scanned else other_formats.read)(path, features="auto")
    assert str(refused.value).endswith(f". {said}")


def test_of_several_files_the_one_with_the_row(tmp_path):
    written(tmp_path, "1.csv", "age,action,reward\n1,x,1\n2,y,0\n")
    written(tmp_path, "2.csv", "age,action,reward\n1,x,1\n2,y,\n")
    with pytest.raises(LogError, match=r"reward at row 3 .*\. Row 3 is line 3 of 2\.csv$"):
        sparing.read_log(tmp_path, features="auto")


@pytest.mark.parametrize(
    ("name", "rows", "said"),
    [
        (
            "log.csv",
            "1,x,1\n2,y\n3,x,0\n",
            r"line 3 has 2 cells \(\['2', 'y'\]\); the header has 3\. Add .* its comma$",
        ),
        ("log.csv", "1,x,1\n2,y,0,5\n3,x,0\n", r"line 3 has 4 cells .* holds a comma in double quotes, or"),
        (
            "log.csv",
            '"1\n7",x,1\n\r\n2\n3,x,0\n',
            r"line 5 has 1 cell .*; the header has 3\. Add the missing",
        ),
        ("log.csv", '1,x,1\n"2,y,0\n3,x,0\n', r"line 3 has 1 cell .* continues to line 4: close its quote"),
        (
            "log.csv.gz",
            "1,x,1\n2,y\n",
            r"line 3 has 2 cells .*\. If the file was cut off there, delete the line$",
        ),
        ("log.tsv", "1\tx\t1\n2\ty\n", r"line 3 has 2 cells .* keeps its tab"),
    ],
)
@pytest.mark.parametrize("scanned", [False, True])
def test_a_row_with_too_many_or_too_few_cells(tmp_path, name, rows, said, scanned):
    head = "age,action,reward\n"
    path = written(tmp_path, name, (head.replace(",", "\t") if name.endswith("tsv") else head) + rows)
    with pytest.raises(LogError, match=f"{name}, {said}"):
        (scan_rows if scanned else other_formats.read)(path, features="auto")


def test_a_frame_has_no_lines():
    with pytest.raises(LogError, match=r"reward at row 1 .* drop the row$"):
        sparing.read_log({"age": [1, 2], "action": ["x", "y"], "reward": [1.0, None]}, features="auto")
