"""What plain NumPy, Numba, SciPy's HiGHS and PyArrow take for the same work, and the machine's limit."""

import importlib
from importlib import metadata
from typing import Any

import numpy as np

from research.bench.ours import kernels
from research.bench.ours.data import Repeated, visits

VERSION = metadata.version("numpy")


class _LinUCB:
    """LinUCB in plain arrays."""

    def __init__(self, rounds: Any) -> None:
        k, d = rounds.n_actions, rounds.n_features
        self.inverse = np.tile(np.eye(d), (k, 1, 1))
        self.response, self.theta = np.zeros((k, d)), np.zeros((k, d))


class OneProduct(_LinUCB):
    """All actions in one matrix–vector product."""

    def step(self, x: Any, means: Any, noise: float) -> None:
        """Decide and learn."""
        k, d = self.theta.shape
        images = (self.inverse.reshape(k * d, d) @ x).reshape(k, d)
        action = int(np.argmax(self.theta @ x + np.sqrt(images @ x)))
        image = images[action]
        self.inverse[action] -= np.outer(image, image) / (1 + image @ x)
        self.response[action] += x * (means[action] + noise)
        self.theta[action] = self.inverse[action] @ self.response[action]


class Loops(_LinUCB):
    """Compiled loops over all actions."""

    def step(self, x: Any, means: Any, noise: float) -> None:
        """Decide and learn."""
        a = kernels.best_of_all(x, self.theta, self.inverse, 1.0)
        kernels.learn(x, means[a] + noise, self.inverse[a], self.response[a], self.theta[a])


class Read:
    """Read `spec["bytes"]` of float32 from wherever so much fits: the least that a scan can take."""

    def __init__(self, worlds: Any, spec: dict[str, Any]) -> None:
        self.table = np.zeros(max(1, int(spec["bytes"]) // 4), dtype=np.float32)
        self.kernel = kernels.read
        self.run(1)

    def run(self, count: int) -> None:
        """So many times."""
        self.kernel(self.table, count)


def simulation(worlds: Any, spec: dict[str, Any]) -> Any:
    """mOFUL as a NumPy loop over steps, one after the other for each seed."""
    from sparing.simulation import LinearWorld

    k, d, length = int(spec["actions"]), int(spec["features"]), int(spec["rounds"])

    def once() -> None:
        for seed in range(int(spec["runs"])):
            world = LinearWorld(n_actions=k, n_features=d, seed=seed)
            stream = world.live_stream(length, np.random.default_rng([seed, 3]))
            kernels.run_loop(stream.contexts, stream.means, stream.draws, noise=world.noise)

    return Repeated(once)


def reading(worlds: Any, spec: dict[str, Any]) -> Any:
    """Read every column of a Parquet file, batch by batch, and drop it: in the fastest way PyArrow has.

    Its default, which reads ahead into memory, took several times as long.
    """
    import pyarrow as pa
    import pyarrow.parquet as pq

    pa.set_cpu_count(1)
    pa.set_io_thread_count(1)

    def once() -> None:
        with pq.ParquetFile(spec["path"], pre_buffer=False, buffer_size=2**20) as file:
            for _ in file.iter_batches(batch_size=131_072, use_threads=False):
                pass

    return Repeated(once)


def highs(worlds: Any, spec: dict[str, Any]) -> Any:
    """π⁺ as the linear program it is stated as, a variable for each supported action of a context."""
    data = visits(spec)
    table = data.pop("table")
    ids, actions = data["context_ids"], data["actions"]
    value = np.zeros(table.shape)
    np.add.at(value, (ids, actions), data["rewards"] / data["propensities"])
    context = np.repeat(np.arange(len(table)), table.shape[1])
    return _solve(value.ravel(), np.minimum(float(spec["clip"]) * table.ravel(), 1.0), context)


def highs_collapsed(worlds: Any, spec: dict[str, Any]) -> Any:
    """The same with our shortcut: the unlogged actions of a context are one variable."""
    from sparing.log import Log
    from sparing.policies.pi_plus import clip_constant

    data = visits(spec)
    del data["table"]
    log = Log.from_indices(**data)
    assert log.propensities is not None
    pairs, pair = np.unique(log.groups * log.n_actions + log.actions, return_inverse=True)
    value = np.bincount(pair, weights=log.rewards / log.propensities)
    share = np.zeros(len(pairs))
    share[pair] = log.propensities
    context = pairs // log.n_actions
    rest = 1 - np.bincount(context, weights=share)
    context = np.concatenate([context, np.arange(len(rest))])
    value = np.concatenate([value, np.zeros(len(rest))])
    cap = np.minimum(clip_constant(log, spec["clip"]) * np.concatenate([share, rest]), 1.0)
    return _solve(value, cap, context)


def _solve(value: np.ndarray, cap: np.ndarray, context: np.ndarray) -> Repeated:
    """max value·π, 0 ≤ π ≤ cap, Σ π = 1 in every context; written down before the clock starts."""
    from scipy.sparse import csr_array

    linprog: Any = importlib.import_module("scipy.optimize").linprog
    sums = csr_array((np.ones(len(cap)), (context, np.arange(len(cap)))))
    bounds = np.column_stack([np.zeros(len(cap)), cap])

    def once() -> None:
        solved = linprog(-value, A_eq=sums, b_eq=np.ones(sums.shape[0]), bounds=bounds, method="highs")
        if solved.status != 0:
            raise RuntimeError(f"HiGHS: {solved.message}")

    return Repeated(once)


def sorting(worlds: Any, spec: dict[str, Any]) -> Any:
    """np.argsort of as many numbers as the log has rows: its (context, action) pairs."""
    data = visits(spec)
    keys = data["context_ids"] * len(data["action_names"]) + data["actions"]
    return Repeated(lambda: np.argsort(keys))


CONTENDERS = {
    "NumPy, one product": OneProduct,
    "Numba, all arms": Loops,
    "read": Read,
    "NumPy step loop": simulation,
    "reading the file": reading,
    "HiGHS": highs,
    "HiGHS, collapsed": highs_collapsed,
    "np.argsort": sorting,
}
