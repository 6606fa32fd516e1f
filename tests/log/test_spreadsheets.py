"""Workbooks as programs of offices save them: titles, several sheets, merged cells, dates, errors, numbers as text."""

import datetime
import sys
import zipfile

import numpy as np
import openpyxl
import pytest
from typer.testing import CliRunner

import sparing
from sparing.cli import app
from sparing.errors import LogError, LogWarning, MissingExtraError, SettingError

N = 120
DAY = datetime.datetime(2026, 1, 1)

LANGUAGES = {
    "german": {
        "sheet": "Daten",
        "names": ["Alter", "Umsatz", "Rabatt", "Neukunde", "Datum", "PLZ", "Banner", "Erlös"],
        "amount": lambda value: f"{value:,.2f} €".translate(str.maketrans(",.", ".,")),
        "share": lambda value: f"{value:.1f} %".replace(".", ","),
        "words": ("ja", "nein"),
        "actions": ("blau", "grün", "rot"),
    },
    "french": {
        "sheet": "Données",
        "names": [
            "Âge",
            "Chiffre d'affaires",
            "Remise",
            "Nouveau",
            "Date",
            "Code postal",
            "Bannière",
            "Recette",
        ],
        "amount": lambda value: f"{value:,.2f} €".replace(",", "\u202f").replace(".", ","),
        "share": lambda value: f"{value:.1f}\u00a0%".replace(".", ","),
        "words": ("oui", "non"),
        "actions": ("bleu", "rouge", "vert"),
    },
    "english": {
        "sheet": "Data",
        "names": ["Age", "Turnover", "Discount", "New customer", "Date", "Zip code", "Banner", "Revenue"],
        "amount": lambda value: f"£{value:,.2f}",
        "share": lambda value: f"{value:.1f}%",
        "words": ("yes", "no"),
        "actions": ("blue", "green", "red"),
    },
}


def rounds(language):
    """Rows of an export: whole numbers, amounts and shares as text, words, dates, codes, an action, an amount."""
    rng = np.random.default_rng(0)
    for i in range(N):
        yield [
            int(rng.integers(18, 80)),
            language["amount"](float(rng.integers(0, 3_000_000)) / 100),
            language["share"](float(rng.integers(0, 300)) / 10),
            language["words"][i % 2],
            DAY + datetime.timedelta(hours=int(rng.integers(5000))),
            f"{1067 + i % 3:05d}",
            language["actions"][i % 3],
            language["amount"](float(rng.integers(0, 5000)) / 100),
        ]


def export(path, language):
    """A workbook as a person's export has it: titles above the table, a second sheet."""
    book = openpyxl.Workbook()
    sheet = book.active
    sheet.title = language["sheet"]
    sheet["A1"] = "2026"
    sheet.merge_cells("A1:H1")
    sheet["B2"] = "X"
    for row in ([], language["names"], *rounds(language)):
        sheet.append(row)
    sheet.cell(N + 30, 12).number_format = "0.00"
    book.create_sheet("Info")["A1"] = "…"
    book.save(path)
    return path


@pytest.mark.parametrize("name", LANGUAGES)
def test_an_export_goes_through_the_audit_in_one_command(tmp_path, name):
    language = LANGUAGES[name]
    path = export(tmp_path / "export.xlsx", language)
    *_, action, reward = language["names"]
    done = CliRunner().invoke(app, ["audit", str(path), "--action", action, "--reward", reward])
    assert done.exit_code == 0, done.output
    assert f"{N} rows, 3 actions" in done.stdout
    assert "column names in row 4" in done.stderr
    log = sparing.read_log(path, action=action, reward=reward)
    kinds = {column.column: column.kind for column in log.encoder.columns}
    assert list(kinds.values()) == ["number", "number", "number", "bool", "time", "category"]
    rows = list(rounds(language))
    rng = np.random.default_rng(0)
    for row, context, earned in zip(rows, log.contexts, log.rewards, strict=True):
        live = dict(zip(language["names"][:6], row, strict=False))
        _, amount, share, _, last = (
            int(rng.integers(*ends)) for ends in ((18, 80), (0, 3_000_000), (0, 300), (0, 5000), (0, 5000))
        )
        typed = dict(zip(language["names"][1:3], (amount / 100, float(f"{share}e-3")), strict=True))
        assert (log.encoder.encode(live) == context).all()
        assert (log.encoder.encode(live | typed) == context).all()
        assert earned == last / 100


def workbook(path, rows, title="Sheet", **sheets):
    book = openpyxl.Workbook()
    book.active.title = title
    for row in rows:
        book.active.append(row)
    for name, others in sheets.items():
        sheet = book.create_sheet(name)
        for row in others:
            sheet.append(row)
    book.save(path)
    return path


HEAD = ["age", "action", "reward"]
BODY = [[20 + i % 40, "ab"[i % 2], i % 2] for i in range(40)]


def test_a_sheet_is_chosen_by_name_or_number(tmp_path):
    path = workbook(tmp_path / "a.xlsx", [], Empty2=[], First=[HEAD, *BODY], Second=[HEAD, *BODY[:30]])
    log, notes = sparing.read_log(path, notes=True)
    assert log.n_rows == 40
    assert "sheet 'First'" in "".join(notes)
    assert [sparing.read_log(path, sheet=sheet).n_rows for sheet in ("Second", 4, "4", "First", 3)] == [
        30,
        30,
        30,
        40,
        40,
    ]
    with pytest.raises(LogError, match=r"no sheet 'Secnd'; it has .*Did you mean 'Second'\?"):
        sparing.read_log(path, sheet="Secnd")
    with pytest.raises(LogError, match="no rows: the sheet 'Sheet' is empty"):
        sparing.read_log(path, sheet=1)
    with pytest.raises(SettingError, match=r"sheet=1\.5; must be"):
        sparing.read_log(path, sheet=1.5)
    done = CliRunner().invoke(app, ["audit", str(path), "--sheet", "Second", "--json"])
    assert done.exit_code == 0, done.output


def test_a_folder_of_months_is_one_log(tmp_path):
    head = ["age", "price", "note", "action", "reward"]
    may = [[20 + i, i, None, "ab"[i % 2], i % 2] for i in range(40)]
    june = [[20 + i, i + 0.5, "xy"[i % 2], "ab"[i % 2], (i + 1) % 2] for i in range(40)]
    workbook(tmp_path / "05.xlsx", [head, *may])
    workbook(tmp_path / "06.xlsx", [["June"], head, *june])
    log = sparing.read_log(tmp_path)
    assert log.n_rows == 80
    assert log.encoder.described() == "age: number; price: number; note: category of 2 values, some missing"
    workbook(tmp_path / "06.xlsx", [["June"], head, *june, [31, "viel", None, "a", 1]])
    with pytest.raises(LogError, match=r"differ in the column 'price': string and int64"):
        sparing.read_log(tmp_path)


def test_rows_are_named_as_the_sheet_numbers_them(tmp_path):
    rows = [["Report"], [], HEAD, *BODY[:10], [], *BODY[10:20], [31, "a", "viel"], *BODY[20:]]
    path = workbook(tmp_path / "a.xlsx", rows, title="Log")
    with pytest.raises(
        LogError, match=r"reward at row 25 of the sheet 'Log' of a.xlsx is 'viel', not a number"
    ):
        sparing.read_log(path)
    with pytest.raises(LogError, match=r"a.xlsx, sheet 'Log' has no action column 'banner'; it has 'age'"):
        sparing.read_log(path, action="banner")


def test_headers_that_are_merged_doubled_or_missing(tmp_path):
    book = openpyxl.Workbook()
    sheet = book.active
    for row in (
        ["customer", None, None, "action", "reward"],
        ["age", "size", "size", None, None, None],
        *([20 + i, i % 7, i % 5, "ab"[i % 2], i % 2, f"note {i % 3}"] for i in range(40)),
    ):
        sheet.append(row)
    sheet.merge_cells("A1:C1")
    sheet.merge_cells("D1:D2")
    sheet.merge_cells("E1:E2")
    book.save(tmp_path / "a.xlsx")
    log, notes = sparing.read_log(tmp_path / "a.xlsx", notes=True)
    assert log.action_names == ("a", "b")
    assert (
        log.encoder.described()
        == "age: number; size: number; size (2): number; Unnamed: 5: left out, a column without a name"
    )
    assert "'size (2)'" in "".join(notes)


def test_cells_keep_their_types(tmp_path):
    """Numbers with a format stay numbers; errors and formulas that were never computed are missing; times are hours."""
    book = openpyxl.Workbook()
    sheet = book.active
    sheet.append(["price", "share", "when", "clock", "rate", "mixed", "code", "action", "reward"])
    for i in range(40):
        when = DAY + datetime.timedelta(hours=i)
        mixed = 12.5 + i if i % 2 else f"1.{100 + i},25"
        error = ["#N/A", "#DIV/0!", 3.5, 4.5][i % 4]
        sheet.append([i * 1.1, i / 100, when, when.time(), error, mixed, f"0{i % 3}", i % 2, bool(i % 2)])
        sheet.cell(i + 2, 1).number_format = '#,##0.00 "€"'
        sheet.cell(i + 2, 2).number_format = "0.0%"
        if i % 4 < 2:
            sheet.cell(i + 2, 5).data_type = "e"
    book.save(tmp_path / "a.xlsx")
    log = sparing.read_log(tmp_path / "a.xlsx")
    assert log.action_names == (0, 1)
    assert (log.rewards == np.arange(40) % 2).all()
    assert log.encoder.described() == (
        "price: number; share: number; when: time; clock: number; rate: number, some missing; mixed: number, decimal comma; "
        "code: category of 3 values"
    )
    row = {
        "price": 1.1,
        "share": 0.01,
        "when": "2026-01-01 01:00",
        "clock": 1,
        "rate": None,
        "mixed": 13.5,
        "code": "01",
    }
    assert (log.encoder.encode(row) == log.contexts[1]).all()
    assert (log.encoder.encode(row | {"mixed": "13,5"}) == log.contexts[1]).all()


def test_all_ways_to_read_a_workbook_agree(tmp_path):
    path = export(tmp_path / "a.xlsx", LANGUAGES["german"])
    roles = {"action": "Banner", "reward": "Erlös"}
    log = sparing.read_log(path, **roles)
    scan = sparing.scan(path, workers=2, **roles)
    assert (scan.read().contexts == log.contexts).all()
    (tmp_path / "folder").mkdir()
    for name in ("1.xlsx", "2.xlsx"):
        (tmp_path / "folder" / name).write_bytes(path.read_bytes())
    with pytest.warns(LogWarning, match="120 of 240 rows repeat"):
        assert sparing.scan(tmp_path / "folder", **roles).n_rows == 2 * N
    learner = sparing.warm_started(log)
    live = dict(zip(LANGUAGES["german"]["names"][:6], next(rounds(LANGUAGES["german"])), strict=False))
    assert learner.decide(live).action in log.action_names


MANIFEST = '<manifest:manifest xmlns:manifest="urn:oasis:names:tc:opendocument:xmlns:manifest:1.0"/>'
OPEN_DOCUMENT = """<?xml version="1.0"?><office:document-content office:version="1.2"
 xmlns:office="urn:oasis:names:tc:opendocument:xmlns:office:1.0" xmlns:table="urn:oasis:names:tc:opendocument:xmlns:table:1.0"
 xmlns:text="urn:oasis:names:tc:opendocument:xmlns:text:1.0"><office:body><office:spreadsheet><table:table table:name="Log">
{}</table:table></office:spreadsheet></office:body></office:document-content>"""


def test_open_document_sheets_are_read(tmp_path):
    def cell(value):
        if isinstance(value, str):
            return f'<table:table-cell office:value-type="string"><text:p>{value}</text:p></table:table-cell>'
        return f'<table:table-cell office:value-type="float" office:value="{value}"/>'

    rows = "".join(f"<table:table-row>{''.join(map(cell, row))}</table:table-row>" for row in [HEAD, *BODY])
    with zipfile.ZipFile(tmp_path / "a.ods", "w") as book:
        book.writestr("mimetype", "application/vnd.oasis.opendocument.spreadsheet")
        book.writestr("META-INF/manifest.xml", MANIFEST)
        book.writestr("content.xml", OPEN_DOCUMENT.format(rows))
    log = sparing.read_log(tmp_path / "a.ods")
    assert (log.contexts == sparing.read_log(workbook(tmp_path / "a.xlsx", [HEAD, *BODY])).contexts).all()


def test_what_is_no_workbook_is_refused(tmp_path, monkeypatch):
    (tmp_path / "a.xlsx").write_bytes(b"PK\3\4 anything")
    with pytest.raises(LogError, match=r"a\.xlsx cannot be read as a spreadsheet"):
        sparing.read_log(tmp_path / "a.xlsx")
    workbook(tmp_path / "b.xlsx", [])
    with pytest.raises(LogError, match=r"b\.xlsx has no rows: the sheet 'Sheet' is empty"):
        sparing.read_log(tmp_path / "b.xlsx")
    workbook(tmp_path / "c.xlsx", [[1, 2], [3, 4]])
    with pytest.raises(LogError, match=r"sheet 'Sheet' has no table; expected a row of column names"):
        sparing.read_log(tmp_path / "c.xlsx")
    workbook(tmp_path / "d.xlsx", [HEAD])
    with pytest.raises(LogError, match="has no rows"):
        sparing.read_log(tmp_path / "d.xlsx")
    book = openpyxl.load_workbook(workbook(tmp_path / "far.xlsx", [HEAD, *BODY]))
    book.active["XFD1048576"] = 1
    book.save(tmp_path / "far.xlsx")
    with pytest.raises(LogError, match=r"a cell at XFD1048576.*Delete cells far from the table"):
        sparing.read_log(tmp_path / "far.xlsx")
    monkeypatch.setitem(sys.modules, "python_calamine", None)
    with pytest.raises(MissingExtraError, match=r"reading the spreadsheet .*pip install 'sparing\[excel\]'"):
        sparing.read_log(workbook(tmp_path / "e.xlsx", [HEAD, *BODY]))
