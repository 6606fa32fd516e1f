"""Contenders live in child processes, one a library, and are timed there; see peers/serve.py for what is said."""

import contextlib
import os
import sys
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path

from research.bench.older import OLDER, PUBLIC, Release
from research.children import Child

SERVER = Path(__file__).parent / "peers" / "serve.py"


@dataclass
class Field:
    """Who can run: our own modules in this interpreter, and peers in theirs.

    `peers` maps a peer's name to its interpreter. Children are started when first asked for and live
    until the field is closed. `say` tells people how far it is. `older` is a release to be measured beside ours.
    """

    peers: Mapping[str, Path]
    say: Callable[[str], None] = lambda text: None
    children: dict[str, Child] = field(default_factory=dict)
    older: Release | None = None

    def child(self, name: str) -> Child:
        """The child that serves `ours`, `plain`, `public` or a peer; the older release's are `older ours` and `older public`."""
        if name not in self.children:
            self.children[name] = self._start(name)
        return self.children[name]

    def _start(self, name: str) -> Child:
        environment = dict(os.environ)
        if name in self.peers:
            script = SERVER.with_name(f"{name}.py")
            return Child.start(name, [str(self.peers[name]), "-I", str(SERVER), str(script)], environment)
        if self.older is not None and name.startswith(OLDER):
            module = str(PUBLIC) if name.endswith("public") else self.older.module()
            command = [str(self.older.interpreter), "-P", str(SERVER), module]
            return Child.start(name, command, self.older.environment())
        module = f"research.bench.ours.{name}"
        environment["PYTHONPATH"] = os.pathsep.join(place for place in sys.path if place)
        return Child.start(name, [sys.executable, "-P", str(SERVER), module], environment)

    def died(self, name: str) -> bool:
        """Whether a child has ended of itself, or never came up."""
        child = self.children.get(name)
        return child is None or child.process.poll() is not None

    def forget(self, name: str) -> None:
        """End a child, so that its memory is free or a broken one is started anew."""
        child = self.children.pop(name, None)
        if child is not None:
            child.close()

    def close(self) -> None:
        """End all children."""
        for name in list(self.children):
            self.forget(name)


@contextlib.contextmanager
def open_field(
    peers: Mapping[str, Path], say: Callable[[str], None] = lambda text: None, older: Release | None = None
) -> Iterator[Field]:
    """A field whose children end with the block."""
    ready = Field(peers, say, older=older)
    try:
        yield ready
    finally:
        ready.close()
