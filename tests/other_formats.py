"""Files in every format: by sparing's writers, or, of formats that it only reads, written here row by row."""

import csv
import json

import numpy as np

from sparing.log.formats import FORMATS, open_log, read_log
from sparing.log.labels import label_text

ONLY_READ = [name for name, each in FORMATS.items() if each.writer is None]
WRITTEN = [name for name, each in FORMATS.items() if each.writer]
ENDINGS = {name: each.ending or each.endings[0] for name, each in FORMATS.items() if name != "table"}


def write(log, path, name=None):
    """Write a log in memory as a file of a format; context ids and distributions where it has a place for them."""
    if name not in ONLY_READ:
        (FORMATS[name] if name else FORMATS["table"]).write(log, path)
        return
    with path.open("w", encoding="utf-8", newline="") as file:
        if name == "open-bandit":
            csv.writer(file, lineterminator="\n").writerows(open_bandit_rows(log))
        else:
            file.writelines(json.dumps(record, ensure_ascii=False) + "\n" for record in records(log, name))


def open_bandit_rows(log):
    """Actions as items from 0, all features as numbers."""
    shares = [] if log.propensities is None else ["propensity_score"]
    users = [f"user_feature_{j}" for j in range(log.n_features)]
    yield ["", "timestamp", "item_id", "position", "click", *shares, *users]
    for i in range(log.n_rows):
        share = [] if log.propensities is None else [log.propensities[i].item()]
        row = [log.actions[i].item(), 1, log.rewards[i].item(), *share, *log.contexts[i].tolist()]
        yield [i, f"1970-01-01 00:00:00.{i:06d}+00:00", *row]


def records(log, name):
    """The JSON value of each row; the first one names all features, so that a reader sees them in order."""
    masks = log.support.mask() if log.support.kind == "exact" else np.ones((log.n_rows, log.n_actions), bool)
    for i in range(log.n_rows):
        x, action, reward = log.contexts[i], int(log.actions[i]), log.rewards[i].item()
        shown = np.arange(len(x)) if i == 0 else np.flatnonzero((x != 0) | np.signbit(x))
        features = {log.feature_names[j]: x[j].item() for j in shown}
        available = np.flatnonzero(masks[i]).tolist()
        arms = [log.action_names[a] for a in available]
        share = None if log.propensities is None else log.propensities[i].item()
        if name == "river":
            yield [arms, features, log.action_names[action], reward]
        elif name == "coba":
            dense = list(log.feature_names) == [f"x_{j}" for j in range(len(x))]
            context = x.tolist() if dense else features
            record = {"context": context, "action": log.action_names[action], "reward": reward}
            record |= {} if share is None else {"probability": share}
            record |= {"actions": arms} if log.support.kind == "exact" else {}
            yield record | ({} if log.context_ids is None else {"context_id": log.context_ids[i].item()})
        else:
            place = available.index(action)
            label = {"_label_cost": -reward, "_label_probability": share, "_labelIndex": place}
            actions = [{"a": {"id": label_text(arm)}} for arm in arms]
            yield {**label, "_label_Action": place + 1, **features, "_multi": actions}


def to_feedback(log):
    """OBP's dict of a log with propensities and full distributions."""
    return {
        "n_rounds": log.n_rows,
        "n_actions": log.n_actions,
        "context": log.contexts,
        "action": log.actions.astype(np.int64),
        "reward": log.rewards,
        "pscore": log.propensities,
        "pi_b": log.support.distribution()[:, :, None],
    }


def read(source, name=None, **options):
    """The log, and what was assumed."""
    return read_log(source, format=name, notes=True, **options)


def opened(source, name=None, **options):
    """The log as one that is scanned, and what was assumed."""
    return open_log(source, format=name, **options)
