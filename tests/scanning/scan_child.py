"""Audits, evaluates and learns from a log in a process that may hold no more than so many bytes; prints what it found."""

import json
import resource
import sys
import time

import sparing
from sparing.policies.policy import UniformPolicy


def main(path, limit):
    if limit:
        resource.setrlimit(resource.RLIMIT_DATA, (limit, limit))
    taken = {}

    def timed(name, work):
        start = time.perf_counter()
        found = work()
        taken[name] = round(time.perf_counter() - start, 2)
        return found

    log = timed("scan", lambda: sparing.scan(path, workers=2))
    summary = timed("summarise", lambda: sparing.LogSummary.of(log))
    audit = timed("audit", lambda: sparing.audit(log))
    policy = UniformPolicy(log.action_names)
    found = timed("evaluate", lambda: sparing.evaluate(log, policy, methods=["ips", "dr"]))
    greedy = timed("learn", lambda: sparing.learn(log, "greedy", holdout=0.1))
    learner = timed("confident", lambda: sparing.confident(summary))
    row = {
        name: "phone" if name == "device" else "city 3" if name == "city" else 0.25
        for name in log.encoder.by_column
    }
    print(
        json.dumps(
            {
                "rows": audit.rows,
                "features": audit.features,
                "actions": audit.actions,
                "counts": sum(audit.counts.values()),
                "reward_mean": audit.reward_mean,
                "values": {each.method: [each.low, each.value, each.high] for each in found.estimates},
                "trained_on": greedy.trained_on.rows,
                "decision": str(learner.decide(row).action),
                "peak": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024,
                "seconds": taken,
            }
        )
    )


if __name__ == "__main__":
    main(sys.argv[1], int(sys.argv[2]))
