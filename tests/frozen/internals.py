"""The internal names that the frozen fixtures need. This is the only place to change after a rename.

Each entry loads its function when it is called, so that one missing name fails one test.
"""

from importlib import import_module

import numpy as np

PLACES = {
    "finaliser": ("sparing.hashing", "mix64"),
    "fold_word": ("sparing.hashing", "fold_word"),
    "row_keys": ("sparing.hashing", "row_keys"),
    "stream_word": ("sparing.online.engine.random_stream", "splitmix64"),
    "round_key": ("sparing.online.engine.random_stream", "stream_key"),
    "uniform": ("sparing.online.engine.random_stream", "uniform"),
    "normals": ("sparing.online.engine.random_stream", "normals"),
    "logging_word": ("sparing.hashing", "splitmix64"),
    "logging_hashes": ("sparing.simulation.logging_policies", "_hashed"),
    "context_hashes": ("sparing.hashing", "context_hashes"),
    "id_hashes": ("sparing.hashing", "id_hashes"),
    "group_hashes": ("sparing.log.log", "group_hashes"),
    "Fingerprint": ("sparing.policies.fingerprint", "TrainingFingerprint"),
    "Split": ("sparing.policies.fingerprint", "Split"),
}
"""What a name of ours is called in the package: module and attribute."""

ENGINE_STAMP = ("sparing.service.state_files", "engine")
"""Recording only: what stamps a store with its engine, to record one that an earlier engine began."""

SPLIT_BY = ("context", "context_id", "row", "place")
"""What a policy file may say that its rows were held out by."""


def internal(name):
    """An internal of the package."""
    module, attribute = PLACES[name]
    return getattr(import_module(module), attribute)


def with_logged_contexts(learner):
    """The learner, with logged contexts alone to stand for future ones: since 0.3 live ones stand for them too."""
    from sparing.online.engine.state import NEVER

    learner.sets.arrays.sampled_from = NEVER
    learner.find_next_entry()
    return learner


def words(count=1000):
    """Words of 64 bits: the first whole numbers, and words that are spread over all bits."""
    first = np.arange(count // 2, dtype=np.uint64)
    return np.concatenate([first, np.random.default_rng(64).integers(0, 2**64, count // 2, dtype=np.uint64)])


def hash_tables():
    """1,000 words of every variant, by its name, as arrays."""
    given = words()
    other = np.roll(given, 7)
    numbers = (given >> np.uint64(1)).astype(np.int64).tolist()
    normal = np.empty(1000)
    internal("normals")(int(numbers[-1]), normal)
    stream, key, uniform = internal("stream_word"), internal("round_key"), internal("uniform")
    return {
        "finaliser": internal("finaliser")(given),
        "fold_word": internal("fold_word")(given, other),
        "row_keys": internal("row_keys")(given),
        "stream_word": np.array([stream(word) for word in given], dtype=np.uint64),
        "round_key": np.array([key(numbers[-i], i) for i in range(1000)], dtype=np.int64),
        "uniform": np.array([uniform(number, i % 20) for i, number in enumerate(numbers)]),
        "normals": normal,
        "logging_word": internal("logging_word")(given),
    }


def log_identity(log):
    """Everything by which rows of a log are recognised again, as arrays."""
    found = {
        "contexts": internal("context_hashes")(log.contexts),
        "contexts_many": internal("context_hashes")(log.contexts),
        "logging": internal("logging_hashes")(log.contexts),
        "groups": internal("group_hashes")(log),
    }
    if log.context_ids is not None:
        found["ids"] = internal("id_hashes")(log.context_ids)
    taught = internal("Fingerprint").of(log)
    found["sketch"], found["counts"] = taught.sketch, taught.counts
    for by in SPLIT_BY:
        if by != "context_id" or log.context_ids is not None:
            for seed in (0, 7):
                found[f"held/{by}/{seed}"] = internal("Split")(0.3, seed, by).held_out(log)
    return found


def use_prior_of_release_01(patch):
    """Put the hyperprior back that the fixtures were recorded with: wide, at its mode, and 30 for what actions share."""
    prior = import_module("sparing.model.prior")

    def wide(sums, blocks, noise):
        root = float(np.sqrt(sums.squares.sum() / sums.n_rows))
        deviation = max(prior.reward_deviation(sums, blocks), noise or 0.0, prior.SMALLEST_NOISE * root)
        sizes = np.sqrt(blocks.sums(np.diag(sums.gram.sum(axis=0))) / sums.n_rows)
        sizes = np.where(sizes > 0, sizes, max(float(sizes.max()), prior.SMALLEST_NOISE))[blocks.of]
        kernel = np.array([name == "kernel" for name in blocks.names])[blocks.of]
        flat = min(prior.FLAT * max(root, deviation) / deviation, prior.FLATTEST)
        return deviation / sizes, np.where(kernel, 1.0, flat) * deviation / sizes, deviation

    patch.setattr(prior, "LOG_DEVIATION", 1.0)
    patch.setattr(prior, "_expected", wide)
    patch.setattr(
        prior.Search, "posterior", lambda self: prior.ScalePosterior((self.scales(self.mode),), np.ones(1))
    )
    patch.setattr(prior.ScalePosterior, "spread", lambda self: self.points[0].spread)
    # And a value of calls on new actions without early stopping.
    rule = import_module("sparing.online.rules").EconomicalRule
    patch.setattr(rule.__init__, "__defaults__", (False,))


def recorded_intervals(learner):
    """Decisions with the intervals that were recorded: one half-width, of the view in which the action was chosen."""
    return learner.intervals_of_0_2()
