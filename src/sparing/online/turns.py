"""Who may touch a learner when: many may look at once, one alone may change it."""

import threading


class Turns:
    """`with turns.door` and `turns.wait()` to change something, `with turns.looking()` to look.

    A change waits until everybody who looks is done, and nobody begins to look meanwhile.
    """

    def __init__(self) -> None:
        self.door = threading.Lock()
        self.inside = 0
        self.left = threading.Condition()

    def wait(self) -> None:
        """Behind the door: wait until nobody looks."""
        if self.inside:
            with self.left:
                self.left.wait_for(lambda: not self.inside)

    def looking(self) -> "Looking":
        """Look, side by side with others who only look."""
        return Looking(self)


class Looking:
    """Someone who looks; a class of its own, because a generator costs twice as much."""

    __slots__ = ("_turns",)

    def __init__(self, turns: Turns) -> None:
        self._turns = turns

    def __enter__(self) -> None:
        turns = self._turns
        with turns.door, turns.left:
            turns.inside += 1

    def __exit__(self, *error: object) -> None:
        turns = self._turns
        with turns.left:
            turns.inside -= 1
            if not turns.inside:
                turns.left.notify_all()
