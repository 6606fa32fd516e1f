"""A lock for many readers or one writer."""

import threading


class ReadWriteLock:
    """Many readers or one writer.

    `with lock` to read; `with lock.writing` to write, or in less time `with lock.write_lock` followed by
    `lock.wait_for_readers()` if there are any. A writer waits for all readers, and no reader starts while it waits.
    """

    def __init__(self) -> None:
        self.write_lock = threading.Lock()
        self.writing = _Writing(self)
        self.readers = 0
        self._count_lock = threading.Lock()
        self._no_readers = threading.Condition(self._count_lock)
        self._awaited = False

    def wait_for_readers(self) -> None:
        """Block until no reader is left; the caller holds `write_lock`."""
        if self.readers:
            with self._count_lock:
                self._awaited = True
                self._no_readers.wait_for(lambda: not self.readers)
                self._awaited = False

    def __enter__(self) -> None:
        with self.write_lock, self._count_lock:
            self.readers += 1

    def __exit__(self, *error: object) -> None:
        with self._count_lock:
            self.readers -= 1
            if self._awaited and not self.readers:
                self._no_readers.notify_all()


class _Writing:
    """The time in which one writer has a lock alone."""

    def __init__(self, lock: ReadWriteLock) -> None:
        self.lock = lock

    def __enter__(self) -> None:
        self.lock.write_lock.acquire()
        try:
            self.lock.wait_for_readers()
        except BaseException:
            self.lock.write_lock.release()
            raise

    def __exit__(self, *error: object) -> None:
        self.lock.write_lock.release()
