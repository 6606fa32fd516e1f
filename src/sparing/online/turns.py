"""Who may touch a learner when: many may look at once, one alone may change it."""

import contextlib
import threading
from collections.abc import Iterator


class Turns:
    """`with turns.door` and `turns.wait()` to change something, `with turns.looking()` to look.

    A change waits until everybody who looks is done, and nobody begins to look meanwhile.
    """

    def __init__(self) -> None:
        self.door = threading.Lock()
        self.inside = 0
        self._left = threading.Condition()

    def wait(self) -> None:
        """Behind the door: wait until nobody looks."""
        if self.inside:
            with self._left:
                self._left.wait_for(lambda: not self.inside)

    @contextlib.contextmanager
    def looking(self) -> Iterator[None]:
        """Look, side by side with others who only look."""
        with self.door, self._left:
            self.inside += 1
        try:
            yield
        finally:
            with self._left:
                self.inside -= 1
                self._left.notify_all()
