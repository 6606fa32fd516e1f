"""Cases of one property in one test."""

import functools
import inspect


def for_each(names, values, *, ids=None):
    """Run a test with every value, as `pytest.mark.parametrize` does, but as one test.

    All values get the same fixtures. A failure names its value in a note.
    """
    names = [name.strip() for name in names.split(",")] if isinstance(names, str) else list(names)
    labels = values if ids is None or callable(ids) else ids

    def decorate(test):
        @functools.wraps(test)
        def run(**fixtures):
            for label, value in zip(labels, values, strict=True):
                case = (value,) if len(names) == 1 else value
                try:
                    test(**fixtures, **dict(zip(names, case, strict=True)))
                except BaseException as error:
                    error.add_note(f"with {', '.join(names)} = {label!r}")
                    raise

        signature = inspect.signature(test)
        left = [one for one in signature.parameters.values() if one.name not in names]
        run.__signature__ = signature.replace(parameters=left)
        return run

    return decorate
