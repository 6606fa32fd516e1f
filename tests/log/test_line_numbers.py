"""What is wrong with a row of a text file is told with its line."""

import gzip

import pytest

import sparing
from sparing.errors import LogError
from sparing.log.formats import read_any, scan_any

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


def walk(path, **options):
    scan_any(path, **options)[0].read()


def written(folder, name, text):
    raw = text.encode()
    (folder / name).write_bytes(gzip.compress(raw) if name.endswith(".gz") else raw)
    return folder / name


@pytest.mark.parametrize("case", CASES)
@pytest.mark.parametrize("walked", [False, True])
def test_a_row_is_told_with_its_line(tmp_path, case, walked):
    name, text, said = CASES[case]
    path = written(tmp_path, name, text)
    with pytest.raises(LogError, match=r"at row 1\b") as refused:
        (walk if walked else read_any)(path, features="auto")
    assert str(refused.value).endswith(f". {said}")


def test_of_several_files_the_one_with_the_row(tmp_path):
    written(tmp_path, "1.csv", "age,action,reward\n1,x,1\n2,y,0\n")
    written(tmp_path, "2.csv", "age,action,reward\n1,x,1\n2,y,\n")
    with pytest.raises(LogError, match=r"reward at row 3 .*\. Row 3 is line 3 of 2\.csv$"):
        sparing.read_log(tmp_path, features="auto")


def test_a_frame_has_no_lines():
    with pytest.raises(LogError, match=r"reward at row 1 .* drop the row$"):
        sparing.read_log({"age": [1, 2], "action": ["x", "y"], "reward": [1.0, None]}, features="auto")
