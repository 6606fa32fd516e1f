"""Ways to spoil a file: byte by byte, number by number, and by what the format is made of."""

import copy
import io
import json
import re
import struct
import zipfile

import numpy as np
import pyarrow as pa
import pyarrow.feather as feather
import pyarrow.parquet as pq

NUMBERS = [
    *[
        "0",
        "-1",
        "1",
        "2",
        "0.5",
        "1e-320",
        "1e99",
        "1e101",
        "1e200",
        "-1e300",
        "1e400",
        "NaN",
        "inf",
        "-Infinity",
    ],
    *[
        "30000000",
        "2e7",
        "4294967296",
        "1099511627776",
        "99999999999999999999",
        "7" * 5000,
        "1_0",
        "１０",
        "²",
        "0x10",
    ],
    *["", "null", "true", '""', "[]", "{}", "1.5.2", "+1", " 1", "--1"],
]
PIECES = [
    *[
        b"\0",
        b"\xff",
        b"\xed\xa0\x80",
        b"\r",
        b"\n",
        b"\n\n",
        b'"',
        b",",
        b":",
        b"|",
        b"{",
        b"[",
        b"}",
        b"]",
        b" ",
        b"\\ud800",
    ],
    *[
        "²".encode(),
        "１".encode(),
        b"[" * 700,
        b'{"a":' * 1500,
        b"shared |",
        b"ccb shared |",
        b"1:1:0.5 |",
        b"\xef\xbb\xbf",
    ],
    *[b"x_", b"p_", b"eligible", b"_label_ca", b"_outcomes", b"a" * 200_000],
]
NUMBER = re.compile(rb"-?[0-9]+(?:\.[0-9]+)?(?:e-?[0-9]+)?")


def bytes_of(data, rng):
    """Some bytes flipped, lost, doubled, moved, put in or cut off; or some numbers become others."""
    data = bytearray(data)
    for _ in range(rng.integers(1, 4)):
        a, b = sorted(rng.integers(0, len(data) + 1, 2).tolist())
        short = slice(a, min(b, a + int(rng.integers(1, 40))))
        match rng.integers(8):
            case 0 if data:
                data[min(a, len(data) - 1)] ^= 1 << int(rng.integers(8))
            case 1 if data:
                data[min(a, len(data) - 1)] = int(rng.integers(256))
            case 2:
                del data[short]
            case 3:
                data[a:a] = data[short]
            case 4:
                data[a:a] = PIECES[rng.integers(len(PIECES))]
            case 5 if rng.random() < 0.3:
                del data[a:]
            case 6:
                part = bytes(data[short])
                del data[short]
                place = int(rng.integers(len(data) + 1))
                data[place:place] = part
            case _:
                data = bytearray(_other_number(bytes(data), rng))
    return bytes(data)


def _other_number(data, rng):
    found = list(NUMBER.finditer(data))
    if not found:
        return data
    chosen = found[rng.integers(len(found))]
    return data[: chosen.start()] + NUMBERS[rng.integers(len(NUMBERS))].encode() + data[chosen.end() :]


def deep(levels, leaf=1):
    """A list in a list in a list …"""
    for _ in range(levels):
        leaf = [leaf]
    return leaf


VALUES = [
    *[
        None,
        True,
        0,
        -1,
        1,
        2.5,
        1e200,
        1e-320,
        2**70,
        10**150,
        30_000_000,
        "",
        "a",
        "²",
        "１",
        "\ud800",
        "é",
        "x" * 70_000,
    ],
    *[
        [],
        {},
        [1],
        ["a", "a"],
        [[1, 2], [3]],
        {"id": 1},
        {"_x": 1},
        deep(20),
        deep(150),
        {"a": deep(90)},
        [None],
        [1e300],
    ],
]


def json_lines(data, rng):
    """One value somewhere in one line becomes another, or is lost; or lines are lost, doubled or spoilt."""
    lines = [json.loads(line) for line in data.decode().splitlines()]
    at = int(rng.integers(len(lines)))
    _change(lines[at], rng)
    if rng.random() < 0.3:
        _change(lines[int(rng.integers(len(lines)))], rng)
    texts = [json.dumps(line, ensure_ascii=bool(rng.integers(2))) for line in lines]
    match rng.integers(6):
        case 0:
            texts.insert(at, "[CHECKPOINT INFO LINE] x")
        case 1:
            texts[at] = texts[at][: int(rng.integers(len(texts[at])))]
        case 2:
            texts.insert(at, texts[int(rng.integers(len(texts)))])
    return "\n".join(texts).encode(errors="surrogatepass")


def _change(record, rng):
    """Walk down at random, then replace, delete or add."""
    while True:
        keys = list(record) if isinstance(record, dict) else list(range(len(record)))
        if not keys:
            return
        key = keys[rng.integers(len(keys))]
        if isinstance(record[key], dict | list) and record[key] and rng.random() < 0.7:
            record = record[key]
            continue
        match rng.integers(6):
            case 0:
                del record[key]
            case 1 if isinstance(record, dict):
                names = [
                    "c",
                    "a",
                    "p",
                    "_multi",
                    "_label",
                    "_label_ca",
                    "_outcomes",
                    "pdrop",
                    "actions",
                    "id",
                    "_labelIndex",
                ]
                record[names[rng.integers(len(names))]] = copy.deepcopy(VALUES[rng.integers(len(VALUES))])
            case 2 if isinstance(record, list):
                record.append(record[key])
            case _:
                record[key] = copy.deepcopy(VALUES[rng.integers(len(VALUES))])
        return


def csv_cells(data, rng):
    """A cell, a column or a row changed, lost or doubled; another line end; quotes."""
    rows = [line.split(",") for line in data.decode().splitlines()]
    i, j = int(rng.integers(len(rows))), int(rng.integers(len(rows[0])))
    match rng.integers(8):
        case 0:
            rows = [[*row, row[j] if j < len(row) else ""] for row in rows]
        case 1:
            rows = [row[:j] + row[j + 1 :] for row in rows]
        case 2:
            rows[i] = rows[i][:j]
        case 3:
            rows.insert(i, rows[int(rng.integers(len(rows)))])
        case 4:
            rows[0][j] = [
                "x_²",
                "x_１",
                "x_" + "9" * 5000,
                "p_a",
                "eligible",
                "",
                "action",
                "position",
                "x_0",
            ][rng.integers(9)]
        case 5:
            rows[i][j] = '"' + rows[i][j]
        case _:
            texts = [*NUMBERS, "2020-01-01", '"[""a""]"', "[" * 900, '"' + '[""\\ud800""]' + '"']
            rows[i][min(j, len(rows[i]) - 1)] = texts[rng.integers(len(texts))]
    return ["\n", "\n", "\r\n", "\r"][rng.integers(4)].join(",".join(row) for row in rows).encode()


def text_tokens(data, rng):
    """Words of a line of text changed, lost, doubled or swapped; blank lines."""
    lines = [line.split(" ") for line in data.decode().split("\n")]
    line = lines[int(rng.integers(len(lines)))]
    at = int(rng.integers(len(line)))
    odd = [
        "",
        "|",
        "|f",
        ":1",
        "a:",
        "shared",
        "ccb",
        "'tag",
        "1:2:3:4",
        "0:1:0.5",
        "1:1",
        "3",
        "|f:x",
        "a:1_0",
        "|",
        "a:1e200",
    ]
    match rng.integers(5):
        case 0:
            del line[at]
        case 1:
            line.insert(at, odd[rng.integers(len(odd))])
        case 2:
            parts = line[at].split(":")
            parts[int(rng.integers(len(parts)))] = NUMBERS[rng.integers(len(NUMBERS))]
            line[at] = ":".join(parts)
        case 3:
            lines.insert(int(rng.integers(len(lines))), [""])
        case _:
            lines.insert(int(rng.integers(len(lines))), list(line))
    return "\n".join(map(" ".join, lines)).encode()


def _odd_array(array, rng):
    choices = [
        lambda: array.reshape(-1)[0] if array.size else array,
        lambda: np.concatenate([np.atleast_1d(array)] * 2),
        lambda: np.atleast_1d(array)[:-1],
        lambda: array.astype(complex),
        lambda: array.astype("datetime64[s]") if array.dtype.kind in "iu" else array.astype(str),
        lambda: array.astype(np.float32),
        lambda: np.full(array.shape, 2.0**40),
        lambda: np.full(array.shape, np.nan),
        lambda: np.full(array.shape, 1e300),
        lambda: np.full(array.shape, -1),
        lambda: array[..., None],
        lambda: np.empty(0),
        lambda: np.array([b"a"]),
        lambda: np.zeros(array.shape, dtype=[("a", float)]),
    ]
    return choices[rng.integers(len(choices))]()


def npz_members(data, rng):
    """An array of another shape or kind, lost or doubled; a header that lies; odd fields in the zip."""
    with np.load(io.BytesIO(data)) as archive:
        arrays = {name: archive[name] for name in archive.files}
    name = list(arrays)[rng.integers(len(arrays))]
    if rng.random() < 0.7:
        arrays[name] = _odd_array(arrays[name], rng)
    elif rng.random() < 0.5:
        del arrays[name]
    buffer = io.BytesIO()
    (np.savez if rng.random() < 0.5 else np.savez_compressed)(buffer, **arrays)
    spoilt = bytearray(buffer.getvalue())
    if rng.random() < 0.3:
        mark, fields = [(b"PK\3\4", (6, 8, 26, 28)), (b"PK\1\2", (8, 10, 24, 28, 30))][rng.integers(2)]
        struct.pack_into(
            "<H", spoilt, spoilt.index(mark) + fields[rng.integers(len(fields))], int(rng.integers(1 << 16))
        )
    if rng.random() < 0.3 and b"NUMPY" in spoilt:
        at = spoilt.index(b"NUMPY") + int(rng.integers(60))
        spoilt[at : at + 1] = bytes([int(rng.integers(256))])
    return bytes(spoilt)


def zip_members(data, rng):
    """Another order of the members, or bytes of one of them spoilt and its checksum made to fit."""
    with zipfile.ZipFile(io.BytesIO(data)) as archive:
        members = [(info.filename, archive.read(info)) for info in archive.infolist()]
    at = int(rng.integers(len(members)))
    members[at] = (members[at][0], bytes_of(members[at][1], rng))
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w") as archive:
        for place in rng.permutation(len(members)):
            archive.writestr(*members[place])
    return buffer.getvalue()


def table_columns(data, rng, *, parquet):
    """A column of another type, name or order, lost, or with gaps; notes spoilt."""
    source = io.BytesIO(data)
    rows = pq.read_table(source) if parquet else pa.ipc.open_file(source).read_all()
    metadata = dict(rows.schema.metadata or {})
    at = int(rng.integers(rows.num_columns))
    name, n = rows.schema.names[at], rows.num_rows
    odd = [
        pa.nulls(n, pa.float64()),
        pa.array(["1_0"] * n),
        pa.array([1e200] * n),
        pa.array(range(n), pa.timestamp("ns")),
        pa.array([b"1"] * n),
        pa.array([[1.0]] * n),
        pa.array([{"a": 1}] * n),
        pa.array([True] * n),
        pa.array(["a"] * n).dictionary_encode(),
        pa.array([2**62 + i for i in range(n)]),
        pa.array(["[" * 700] * n),
    ]
    match rng.integers(6):
        case 0:
            rows = rows.drop_columns([name])
        case 1:
            rows = rows.rename_columns(
                [other if other != name else name + "q" for other in rows.schema.names]
            )
        case 2 if metadata:
            metadata = {key: bytes_of(value, rng) for key, value in metadata.items()}
        case 3:
            rows = rows.append_column(name, rows.column(at))
        case _:
            rows = rows.set_column(at, name, odd[rng.integers(len(odd))])
    rows = rows.replace_schema_metadata(metadata if rng.random() < 0.7 else None)
    target = io.BytesIO()
    if parquet:
        pq.write_table(rows, target)
    else:
        feather.write_feather(rows, target, compression="uncompressed")
    return target.getvalue()
