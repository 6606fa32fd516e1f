"""A lock for many readers or one writer."""

import threading


class ReadWriteLock:
    """Many readers or one writer.

    `with lock` to read; `with lock.write_lock` followed by `lock.wait_for_readers()` to write. A writer waits for all
    readers, and no reader starts while it waits.
    """

    def __init__(self) -> None:
        self.write_lock = threading.Lock()
        self.readers = 0
        self.changed = threading.Condition()

    def wait_for_readers(self) -> None:
        """Block until no reader is left; the caller holds `write_lock`."""
        if self.readers:
            with self.changed:
                self.changed.wait_for(lambda: not self.readers)

    def __enter__(self) -> None:
        with self.write_lock, self.changed:
            self.readers += 1

    def __exit__(self, *error: object) -> None:
        with self.changed:
            self.readers -= 1
            if not self.readers:
                self.changed.notify_all()
