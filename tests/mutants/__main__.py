"""Put each fault of `faults.py` into the source, run the tests of learners on it, and report which survive.

The engine runs as plain Python (`interpreted.py`): nothing has to be compiled for a fault. The test that is named with a fault is tried
first, then all of `KILLERS`. A test that fails counts only if it passes without the fault.

python tests/mutants                 all of them: some minutes on one core
python tests/mutants wider log-beats only those whose name has one of these words
"""

import functools
import sys
import time
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1]))

from mutants.faults import FAULTS, KILLERS, Fault
from mutants.trials import FAILED, MISSING, Outcome, run

spent = 0.0
"""Processor seconds of runs so far."""
remarks: list[str] = []
"""What else to report at the end."""


def counted(fault: Fault | None, tests: tuple[str, ...], without: frozenset[str] = frozenset()) -> Outcome:
    """Run tests, and count the time."""
    global spent
    outcome = run(fault, tests, without)
    spent += outcome.seconds
    return outcome


@functools.cache
def passes(test: str) -> bool:
    """Whether a test passes without any fault."""
    outcome = counted(None, (test,))
    if outcome.how:
        remarks.append(f"{test} {outcome.how} without any fault too: it does not count")
    return not outcome.how


def killer(fault: Fault) -> Outcome:
    """The first test that fails on the fault and not without it; one without a name if the fault survives."""
    wrong: frozenset[str] = frozenset()
    for tests in ((fault.test,), *(() if fault.equivalent else (KILLERS,))):
        while (outcome := counted(fault, tests, wrong)).test and not passes(outcome.test):
            wrong |= {outcome.test}
        if outcome.how == MISSING and not wrong:
            remarks.append(f"{fault.name}: there is no test {fault.test}")
        if outcome.test:
            return outcome
    return outcome


def main(words: list[str]) -> int:
    """Try the faults chosen, and print a row for each as it comes."""
    chosen = [fault for fault in FAULTS if not words or any(word in fault.name for word in words)]
    for fault in chosen:
        fault.text()  # before minutes have passed
    survived = []
    for number, fault in enumerate(chosen, start=1):
        before, outcome = spent, killer(fault)
        if outcome.test:
            told = outcome.test if outcome.how == FAILED else f"{outcome.test} ({outcome.how})"
        else:
            told = f"equivalent: {fault.equivalent}" if fault.equivalent else "SURVIVED"
        if bool(outcome.test) == bool(fault.equivalent):
            survived.append(fault.name)
        print(f"{number:3d}/{len(chosen)} {fault.name:46s} {spent - before:6.1f} s  {told}", flush=True)
    for remark in remarks:
        print(remark)
    equivalent = sum(bool(fault.equivalent) for fault in chosen)
    print(
        f"{len(chosen)} faults in {(spent + time.process_time()) / 60:.1f} minutes of processor time: {equivalent} equivalent, {len(survived)} survived or noticed though equivalent"
        f"{': ' if survived else ''}{', '.join(survived)}"
    )
    return bool(survived)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
