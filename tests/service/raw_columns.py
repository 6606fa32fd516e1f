"""A log of raw columns as a shop has it: a category, a number with gaps, a truth value, a time."""

import datetime

import numpy as np

START = datetime.datetime(2026, 1, 5, tzinfo=datetime.UTC)
HEADER = "country,age,member,seen,action,reward,propensity"
ACTIONS = ("red", "green", "blue")


def rows(seed, count, countries=("CH", "NZ", "PE")):
    """Contexts as a request gives them."""
    rng = np.random.default_rng(seed)
    return [
        {
            "country": str(rng.choice(countries)),
            "age": None if rng.random() < 0.2 else round(float(rng.normal(40, 10)), 1),
            "member": bool(rng.random() < 0.5),
            "seen": (START + datetime.timedelta(minutes=int(rng.integers(0, 20_000)))).isoformat(),
        }
        for _ in range(count)
    ]


def write(path, seed=0, count=200, actions=ACTIONS, countries=("CH", "NZ", "PE")):
    """The log as a CSV file."""
    rng, lines = np.random.default_rng(seed + 1), [HEADER]
    for row in rows(seed, count, countries):
        place = int(rng.integers(0, len(actions)))
        reward = 0.2 * place + 0.3 * row["member"] + rng.normal(0, 0.3)
        age = "" if row["age"] is None else row["age"]
        lines.append(
            f"{row['country']},{age},{str(row['member']).lower()},{row['seen']},{actions[place]},{reward:.6f},{1 / len(actions):.6f}"
        )
    path.write_text("\n".join(lines) + "\n")
    return path
