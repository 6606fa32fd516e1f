"""Ways to change a saved file: by accident, byte by byte, or on purpose, header and arrays under a new checksum."""

import copy
import json
import zipfile

import numpy as np

from sparing import archive

ODD_VALUES = [None, True, False, 0, 1, -1, 7, 2**31, 2**63, 10**30, 0.5, 1e308, -1e308, 5e-324]
ODD_VALUES += [float("nan"), float("inf"), float("-inf"), "", "x", "sampled", [], [0], {}, {"tuple": [1]}]
ODD_NUMBERS = [np.nan, np.inf, -np.inf, 0.0, -1.0, 1e308, -1e308, 5e-324, 1e-200, 2.0**31, 2.0**63]
ODD_TYPES = ["<f4", "<f2", "<i8", "<i4", "|i1", "|u1", "<u8", "|b1", "<c16", "<U5", "|S3", "<M8[s]", "<m8[s]"]


def kind_and_version(path):
    """What a saved file says that it is."""
    with zipfile.ZipFile(path) as file:
        header = json.loads(file.read(archive.HEADER))
    return header["kind"], header["version"]


def damaged(whole, rng):
    """Bytes as a bad disk or a broken copy leaves them, and what was done to them."""
    way = rng.integers(6)
    place = int(rng.integers(len(whole)))
    if way == 0:
        flipped = whole[place] ^ (1 << int(rng.integers(8)))
        return whole[:place] + bytes([flipped]) + whole[place + 1 :], f"bit flipped at {place}"
    if way == 1:
        return whole[:place], f"cut at {place}"
    if way == 2:
        return whole[place:], f"begins at {place}"
    length = int(rng.integers(1, 64))
    if way == 3:
        return whole[:place] + bytes(length) + whole[place + length :], f"{length} zeros at {place}"
    if way == 4:
        return whole[:place] + rng.bytes(length) + whole[place:], f"{length} bytes put in at {place}"
    other = int(rng.integers(len(whole)))
    piece = whole[other : other + length]
    return whole[:place] + piece + whole[place + len(piece) :], f"{length} bytes of {other} at {place}"


def forged(header, arrays, rng):
    """A header and arrays with one to three changes, and what they are."""
    header, arrays, told = copy.deepcopy(header), dict(arrays), []
    for _ in range(int(rng.choice([1, 1, 2, 3]))):
        if arrays and rng.random() < 0.6:
            told.append(_change_arrays(arrays, rng))
        else:
            told.append(_change_header(header, rng))
    return header, arrays, "; ".join(told)


def _change_arrays(arrays, rng):
    name = list(arrays)[int(rng.integers(len(arrays)))]
    array, way = arrays[name], int(rng.choice([0, 1, 2, 2, 2, 3, 3, 4, 4, 4]))
    if way == 0:
        del arrays[name]
        return f"{name} removed"
    if way == 1:
        other = list(arrays)[int(rng.integers(len(arrays)))]
        arrays[name], arrays[other] = arrays[other], arrays[name]
        return f"{name} and {other} swapped"
    if way == 2:
        arrays[name], told = _other_shape(array, rng)
    elif way == 3:
        arrays[name], told = _other_type(array, rng)
    else:
        arrays[name], told = _other_numbers(array, rng)
    return f"{name} {told}"


def _other_shape(array, rng):
    ways = {
        "without its last row": lambda: array[:-1],
        "with a row twice": lambda: np.concatenate([array, array[-1:]]),
        "without its last column": lambda: array[..., :-1],
        "with a column twice": lambda: np.concatenate([array, array[..., -1:]], axis=-1),
        "transposed": lambda: array.T.copy(),
        "flat": lambda: array.ravel(),
        "with another axis": lambda: array[None],
        "empty": lambda: array[:0],
        "a number": lambda: array.ravel()[0] if array.size else np.array(0.0),
        "a thousand times": lambda: np.repeat(array[:1], 1000, axis=0),
    }
    told = list(ways)[int(rng.integers(len(ways)))]
    if array.ndim == 0:
        return array[None], "with another axis"
    return np.asarray(ways[told]()), told


def _other_type(array, rng):
    wanted = ODD_TYPES[int(rng.integers(len(ODD_TYPES)))]
    try:
        with np.errstate(all="ignore"):
            return np.nan_to_num(array).astype(wanted), f"as {wanted}"
    except (TypeError, ValueError):
        return np.zeros(array.shape, wanted), f"of zeros of {wanted}"


def _other_numbers(array, rng):
    changed = array.copy()
    if not changed.size or changed.dtype.kind not in "biuf":
        return changed.ravel()[:0], "empty"
    way, place = int(rng.integers(4)), int(rng.integers(changed.size))
    if way == 0 and len(changed.shape) and len(changed) > 1:
        first, second = rng.integers(len(changed), size=2)
        changed[first] = changed[second]
        return changed, f"with row {second} also at {first}"
    if way == 1:
        changed[...] = 0
        return changed, "of zeros"
    if changed.dtype.kind == "f":
        number = ODD_NUMBERS[int(rng.integers(len(ODD_NUMBERS)))]
    elif changed.dtype.kind == "b":
        number = not changed.flat[place]
    else:
        span = np.iinfo(changed.dtype)
        choices = [span.min, span.max, len(changed) if changed.ndim else 1, max(span.min, -1), span.max // 2]
        number = choices[int(rng.integers(len(choices)))]
    if way == 2:
        changed[...] = number
        return changed, f"all {number}"
    changed.flat[place] = number
    return changed, f"with {number} at {place}"


def _change_header(header, rng):
    """Change one value, somewhere in the nested header, or its neighbourhood."""
    places = [(header, key, key) for key in header]
    for holder, key, told in places:  # grows as it is walked
        inner = holder[key]
        keys = inner if isinstance(inner, dict) else range(len(inner)) if isinstance(inner, list) else ()
        places += [(inner, deeper, f"{told}.{deeper}") for deeper in keys]
    if not places:
        return "header has nothing to change"
    holder, key, told = places[int(rng.integers(len(places)))]
    way = int(rng.integers(4))
    if way == 0:
        del holder[key]
        return f"{told} removed"
    if way == 1 and isinstance(holder, list):
        holder.insert(key, copy.deepcopy(holder[int(rng.integers(len(holder)))]))
        return f"an element put in before {told}"
    if way == 2:
        other, another, source = places[int(rng.integers(len(places)))]
        holder[key] = copy.deepcopy(other[another])
        return f"{told} as {source}"
    value = ODD_VALUES[int(rng.integers(len(ODD_VALUES)))]
    holder[key] = value
    return f"{told} = {value!r}"
