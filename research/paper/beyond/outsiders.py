"""Libraries that need an environment of their own: they meet our rounds in a child process.

`python -c "from research.paper.beyond.outsiders import install; install()"` makes the environments; a library without
one is left out.
"""

import atexit
import functools
import os
import tempfile
from pathlib import Path

import numpy as np

from research import environments
from research.children import Child
from research.environments import Peer
from research.paper.experiment import Record
from sparing.log import Log
from sparing.simulation import Stream

_SCIENCE = (
    *("numpy==2.4.6", "scipy==1.17.1", "scikit-learn==1.9.1", "joblib==1.6.0", "threadpoolctl==3.8.0"),
    *("cloudpickle==3.1.2", "narwhals==2.28.0"),
)
PEERS = {
    "bayesianbandits": Peer(
        "bayesianbandits",
        "bayesianbandits",
        "bayesianbandits==1.5.0",
        (*_SCIENCE, "attrs==26.1.0", "typing-extensions==4.16.0"),
    ),
    "paretobandit": Peer("paretobandit", "ParetoBandit", "paretobandit==0.1.1", (*_SCIENCE, "tqdm==4.70.1")),
}
NAMES = tuple(PEERS)
SCRIPT = Path(__file__).with_name("guests.py")


def version(name: str) -> str | None:
    """The version of a library that is installed; None where its environment is not there."""
    peer = PEERS[name]
    return None if environments.interpreter(peer) is None else peer.pin.partition("==")[2]


@functools.cache
def _child(name: str) -> Child:
    """The library's process, which ends with this one."""
    python = environments.interpreter(PEERS[name])
    child = Child.start(name, [str(python), "-I", str(SCRIPT), name], dict(os.environ))
    atexit.register(child.close)
    return child


def meet(
    record: Record, log: Log, stream: Stream, fresh: np.ndarray, rng: np.random.Generator
) -> tuple[np.ndarray, np.ndarray]:
    """Let it learn the log and play every round; its actions (T,), and its policy's on the fresh contexts, (n,)."""
    with tempfile.TemporaryDirectory() as folder:
        np.savez(
            Path(folder, "meeting.npz"),
            n_actions=log.n_actions,
            logged=log.contexts,
            actions=log.actions,
            rewards=log.rewards,
            contexts=stream.contexts,
            earned=stream.means + stream.draws[:, None],
            fresh=fresh,
            seed=int(rng.integers(2**31)),
        )
        _child(record["name"]).ask(folder=folder)
        with np.load(Path(folder, "played.npz")) as played:
            return played["actions"], played["final"]


def install() -> None:
    """Make their environments where they are not there yet, and say how that went."""
    for found in environments.install(list(PEERS.values()), say=print):
        print(f"{found.peer.pin}: {'ready' if found.interpreter else found.reason}")
