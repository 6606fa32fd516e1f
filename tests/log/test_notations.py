"""Numbers, truth values and dates as people write them: recognised together, read alike from files, frames and live rows."""

import itertools
import json
import math

import numpy as np
import pandas as pd
import pytest

import sparing
from sparing.errors import DecisionError, LogError, SettingError, UnitWarning
from sparing.log.features import Encoder, cells
from sparing.log.features.cells import Notation
from sparing.log.text_files import encoding_of

ROLES = {"action": "banner", "reward": "clicked"}
N = 60
GROUPS = {
    ".": (",", "'", "’", " ", "\u00a0", "\u202f", ""),
    ",": (".", "'", "’", " ", "\u00a0", "\u202f", ""),
}


def written(value, *, mark, group, unit="", before=False):
    """A number as a locale writes it: from its shortest digits, so that it must be read back exactly."""
    text = repr(abs(value))
    if "e" in text:
        return None
    whole, _, part = text.partition(".")
    parts = [whole[max(0, end - 3) : end] for end in range(len(whole), 0, -3)][::-1]
    digits = group.join(parts) + (f"{mark}{part}" if part and part != "0" else "")
    sign = "-" if value < 0 else ""
    return f"{unit} {sign}{digits}" if before and unit else f"{sign}{digits} {unit}".strip()


def test_numbers_of_every_locale_are_read_back_exactly():
    rng = np.random.default_rng(0)
    values = np.round(rng.standard_normal(300) * 10.0 ** rng.integers(-4, 9, 300), 4).tolist()
    for value, mark in itertools.product(values, cells.MARKS):
        for group, unit, before in itertools.product(
            GROUPS[mark], ("", "€", "CHF", "£", "zł"), (False, True)
        ):
            text = written(value, mark=mark, group=group, unit=unit, before=before)
            if text is not None:
                assert cells.read_number(text, mark) == (value, unit), text


def test_percent_is_the_nearest_float_to_the_share():
    for hundredths in range(-20_000, 20_000, 7):
        text = f"{hundredths / 100:.2f} %"
        assert cells.read_number(text, ".")[0] == float(f"{hundredths}e-4")
        assert cells.read_number(text.replace(".", ","), ",")[0] == float(f"{hundredths}e-4")


@pytest.mark.parametrize(
    "text",
    [
        "",
        "€",
        "-",
        "1,23,456",
        "0.123.456",
        "5 kg",
        "12 €%",
        "1..5",
        "1 2",
        "1.2345,6",
        "1.5.",
        "１２",
        "1e999",
    ],
)
def test_other_texts_are_no_numbers(text):
    assert not cells.is_numeral(text)


def test_every_word_for_yes_and_no_has_one_meaning():
    for yes, no in cells.TRUTH_LANGUAGES:
        assert not {*yes.split()} & {*no.split()}
        for word in yes.split():
            assert cells.as_bool(word.upper()) == 1
        for word in no.split():
            assert cells.as_bool(word) == 0
    assert not cells.are_truths(["ja", "no"])  # of two languages


def table(**columns):
    rng = np.random.default_rng(0)
    rounds = {
        "banner": [str(each) for each in rng.choice(["rot", "blau"], N)],
        "clicked": [str(i % 2) for i in range(N)],
    }
    return rounds | {name: [words[i % len(words)] for i in range(N)] for name, words in columns.items()}


def write(path, rows, delimiter=";", encoding="utf-8"):
    lines = [delimiter.join(rows)] + [delimiter.join(row) for row in zip(*rows.values(), strict=True)]
    path.write_bytes("\n".join([*lines, ""]).encode(encoding))
    return path


GERMAN = {
    "preis": ["1.133,15 €", "12,50 €", "0 €"],
    "menge": ["1.250", "900", "17"],
    "rabatt": ["12,5 %", "0", "7 %"],
    "neu": ["ja", "nein"],
    "plz": ["01067", "80331"],
    "seit": ["31.12.2025", "01.02.2026"],
    "clicked": ["0,25", "1"],
}
LIVE = {
    "preis": "1.133,15",
    "menge": "1.250",
    "rabatt": "12,5 %",
    "neu": "ja",
    "plz": "01067",
    "seit": "31.12.2025",
}
PLAIN = {"preis": 1133.15, "menge": 1250, "rabatt": 0.125, "neu": True, "plz": "01067", "seit": "2025-12-31"}


def test_a_german_table_is_read_alike_from_file_frame_scan_and_live_rows(tmp_path):
    rows = table(**GERMAN)
    log, notes = sparing.read_log(write(tmp_path / "a.csv", rows), notes=True, **ROLES)
    assert (log.rewards == np.where(np.arange(N) % 2, 1.0, 0.25)).all()
    said = next(note for note in notes if note.startswith("Assumed"))
    for part in (
        "a decimal comma in 'preis', 'menge', 'rabatt', 'clicked'",
        "percent",
        "€ in 'preis'",
        "ja/nein",
    ):
        assert part in said
    one, two = log.encoder.encode(LIVE), log.encoder.encode(PLAIN)
    assert (one == two).all()
    assert (one == log.contexts[0]).all()
    frame = {name: values for name, values in rows.items() if name not in ROLES.values()}
    assert (log.encoder.encode_table(frame) == log.contexts).all()
    scan = sparing.scan(tmp_path / "a.csv", workers=2, **ROLES)
    assert (scan.read().contexts == log.contexts).all()
    assert scan.encoder.digest == log.encoder.digest
    saved = Encoder.from_header(json.loads(json.dumps(log.encoder.header())))
    assert (saved.encode(LIVE) == one).all()
    again = sparing.read_log(tmp_path / "a.csv", features=saved, **ROLES)
    assert (again.contexts == log.contexts).all()
    with pytest.raises(DecisionError, match=r"rabatt is '12'; expected .* text such as 12,5 %"):
        log.encoder.encode({**LIVE, "rabatt": "12"})
    with pytest.raises(DecisionError, match=r"preis is '5 \$'"):
        log.encoder.encode({**LIVE, "preis": "5 $"})


def test_live_text_beyond_the_log_is_explained(tmp_path):
    log = sparing.read_log(write(tmp_path / "a.csv", table(**GERMAN)), **ROLES)
    with pytest.warns(UnitWarning, match="preis"):
        decision = sparing.warm_started(log).decide({**LIVE, "preis": "9.999.999,50 €"})
    with pytest.warns(UnitWarning, match="preis"):
        explained = str(decision.explain())
    assert decision.unseen == ("preis",)
    assert "9.999.999,50 € (beyond the log, counted as" in explained


def test_an_encoder_of_typed_columns_reads_a_german_file(tmp_path):
    """The notation is of a file: contexts and digests are those of the same numbers elsewhere."""
    rows = table(**GERMAN)
    german = sparing.read_log(write(tmp_path / "a.csv", rows), **ROLES)
    typed = dict(rows)
    for name in ("preis", "menge", "rabatt", "clicked"):
        notation = Notation(",", {"preis": "€", "rabatt": "%"}.get(name, ""))
        typed[name] = [notation.read(text) for text in rows[name]]
    log = sparing.read_log(typed, features=german.encoder, **ROLES)
    assert (log.contexts == german.contexts).all()
    old = german.encoder.with_notations(dict.fromkeys(rows))
    assert old.digest == german.encoder.digest
    assert "notation" not in str(old.header())
    back = sparing.read_log(tmp_path / "a.csv", features=old, **ROLES)
    assert (back.contexts == german.contexts).all()
    english = {name: [str(cell) for cell in column] for name, column in typed.items()}
    log = sparing.read_log(write(tmp_path / "b.csv", english), features=german.encoder, **ROLES)
    assert (log.contexts == german.contexts).all()


def test_what_stays_ambiguous_is_refused_at_once_with_an_option_for_each(tmp_path):
    rows = table(
        price=["1.234", "5.678"], since=["03/04/2026", "05/06/2026"], size=["2.345", "900"], age=["31", "52"]
    )
    path = write(tmp_path / "a.csv", rows)
    with pytest.raises(LogError) as refused:
        sparing.read_log(path, **ROLES)
    said = str(refused.value)
    assert said.startswith("3 columns")
    for part in (
        "price holds '1.234', which is 1.234 or 1234: pass decimal=",
        "size holds '2.345'",
        "dates='day-first'",
    ):
        assert part in said
    assert "age" not in said
    assert said.count("sparing.features") <= 2
    for decimal, dates, price, second in (
        (".", "day-first", 1.234, "2026-04-03"),
        (",", "month-first", 1234, "2026-03-04"),
    ):
        log = sparing.read_log(path, decimal=decimal, dates=dates, **ROLES)
        same = {"price": price, "size": price * 2.345 / 1.234, "age": 31, "since": second}
        live = {"price": "1.234", "size": "2.345", "age": "31", "since": "03/04/2026"}
        assert np.allclose(log.encoder.encode(same), log.contexts[0], rtol=0, atol=1e-12)
        assert (log.encoder.encode(live) == log.contexts[0]).all()
    with pytest.raises(SettingError, match="dates='x'; must be"):
        sparing.read_log(path, dates="x", **ROLES)


def test_columns_that_show_their_notation_decide_for_the_others(tmp_path):
    open_columns = {"size": ["1.234", "900"], "since": ["03/04/2026"] * 2 + ["04/05/2026"]}
    comma = write(
        tmp_path / "a.csv", table(**open_columns, price=["0,5"], other=["31/12/2026", "01/02/2026"])
    )
    point = write(
        tmp_path / "b.csv", table(**open_columns, price=["0.5", "0.7"], other=["12/31/2026", "01/02/2026"])
    )
    for path, size, since in ((comma, 1234, "2026-04-03"), (point, 1.234, "2026-03-04")):
        log = sparing.read_log(path, **ROLES)
        live = {"size": size, "since": since, "other": "2026-12-31", "price": 0.5}
        assert (log.encoder.encode(live) == log.contexts[0]).all()


def test_numbers_that_computers_write_are_never_ambiguous(tmp_path):
    rows = table(price=["1.234", "5.678"])
    for source in (write(tmp_path / "a.csv", rows, ","), pd.DataFrame(rows)):
        log = sparing.read_log(source, **ROLES)
        assert log.encoder.described() == "price: number"
        assert math.isclose(log.encoder.columns[0].mean, (1.234 + 5.678) / 2)


def test_declared_numbers_have_notations_too(tmp_path):
    path = write(tmp_path / "a.csv", table(price=["1.133,15 €", "12,50 €"], word=["12,5", "3,25"]))
    log = sparing.read_log(path, features=sparing.features(price="number", word="category"), **ROLES)
    assert log.encoder.described() == "price: number, decimal comma, in €; word: category of 2 values"
    write(path, table(price=["1.133,15 €", "12,50 €", "12.5 €"]))
    with pytest.raises(LogError, match=r"price at row 2 is '12.5 €'; expected .*line 4 of a.csv"):
        sparing.read_log(path, features=sparing.features(price="number"), **ROLES)


@pytest.mark.parametrize(
    ("words", "rewards"),
    [
        (["ja", "nein"], [1, 0]),
        (["oui", "non"], [1, 0]),
        (["12,50 €", "0"], [12.5, 0]),
        (["10 %", "5 %"], [0.1, 0.05]),
        (["CHF 1'234.50", "CHF 2"], [1234.5, 2]),
    ],
)
def test_rewards_are_read_as_people_write_them(tmp_path, words, rewards):
    path = write(tmp_path / "a.csv", table(age=["31", "52", "40"], clicked=words))
    log = sparing.read_log(path, **ROLES)
    assert log.rewards[:2].tolist() == rewards
    (block,) = [log for _, log in sparing.scan(path, workers=1, **ROLES).blocks()]
    assert (block.rewards == log.rewards).all()


def test_a_wrong_reward_among_others_is_named_with_its_line(tmp_path):
    words = ["12,50"] * 40 + ["viel"] + ["3,25"] * 19
    path = write(tmp_path / "a.csv", table(age=["31", "52", "40"], clicked=words))
    with pytest.raises(LogError, match=r"clicked at row 40 is 'viel', not a number.*line 42 of a.csv"):
        sparing.read_log(path, **ROLES)


TEXTS = {
    "cp1252": ("Größe;Straße;Käufer", ["Düsseldorf", "Köln", "Würzburg", "Genève", "Besançon", "Málaga"]),
    "cp1250": ("Ulica;Město;Źródło", ["Łódź", "Kraków", "Poznań", "Wrocław", "Gdańsk", "České Budějovice"]),
    "utf-16": ("Größe;Ulica;Käufer", ["Düsseldorf", "Łódź", "Αθήνα", "Москва", "東京", "Køge"]),
    "utf-8-sig": ("Größe;Ulica;Käufer", ["Düsseldorf", "Łódź", "Αθήνα", "Москва", "東京", "Køge"]),
}


@pytest.mark.parametrize("encoding", [*TEXTS, "utf-8", "utf-16-le", "utf-16-be", "latin-1"])
def test_encodings_are_recognised(tmp_path, encoding):
    header, towns = TEXTS.get(encoding, TEXTS["cp1252" if encoding == "latin-1" else "utf-16"])
    first, second, third = header.split(";")
    rows = {**table(), first: [towns[i % 6] for i in range(N)], second: [str(i % 7) for i in range(N)]}
    rows[third] = [towns[i % 5] for i in range(N)]
    log, notes = sparing.read_log(write(tmp_path / "a.csv", rows, encoding=encoding), notes=True, **ROLES)
    assert log.encoder.columns[0].column == first
    assert set(log.encoder.columns[0].values) == set(towns)
    assert ("encoding" in "".join(notes)) == (not encoding.startswith("utf-8"))
    same = sparing.read_log(tmp_path / "a.csv", encoding=encoding, **ROLES)
    assert (same.contexts == log.contexts).all()
    with pytest.raises(SettingError, match="encoding='klingon'; must be"):
        sparing.read_log(tmp_path / "a.csv", encoding="klingon", **ROLES)


WORDS = {
    "cp1252": [
        "Köln",
        "Genève;Orléans",
        "Málaga;Año;España",
        "São Paulo;não;ação",
        "Prénom;Côté;Où",
        "Ærø;Århus",
        "5 €",
    ],
    "cp1250": ["Łódź", "Brno;Plzeň;Ústí", "Győr;Székesfehérvár;Hódmezővásárhely", "Škofja Loka;Žalec"],
    "cp1251": ["Москва;Казань", "Да;Нет"],
    "cp1253": ["Αθήνα;Θεσσαλονίκη"],
    "cp1254": ["İstanbul;Şişli;Muğla"],
}


def test_a_few_words_show_their_encoding():
    for encoding, texts in WORDS.items():
        for text in texts:
            found, _ = encoding_of(f"a,b\n{text}\n".encode(encoding), "a.csv")
            assert text.encode(encoding).decode(found) == text
