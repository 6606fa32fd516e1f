"""Numbers for Prometheus."""

from collections.abc import Iterator

from prometheus_client import CollectorRegistry
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, Metric, SummaryMetricFamily
from prometheus_client.exposition import CONTENT_TYPE_LATEST, generate_latest
from prometheus_client.registry import Collector

from sparing.service.book import Experiment
from sparing.service.serving import Service
from sparing.service.store.sql import Total

KIND = CONTENT_TYPE_LATEST.encode()


class Numbers(Collector):
    """What a worker knows, and the totals of the store."""

    def __init__(self, service: Service, shown: list[Experiment], totals: dict[str, list[Total]]) -> None:
        self._service, self._shown, self._totals = service, shown, totals

    def collect(self) -> Iterator[Metric]:
        """Every metric with its samples."""
        decisions = CounterMetricFamily(
            "sparing_decisions",
            "Decisions.",
            labels=["experiment", "reason", "arm", "asked"],
        )
        rewards = CounterMetricFamily("sparing_rewards", "Rewards.", labels=["experiment", "arm"])
        earned = GaugeMetricFamily("sparing_reward_sum", "Sum of rewards.", labels=["experiment", "arm"])
        for name, totals in self._totals.items():
            _add(decisions, rewards, earned, name, totals)
        yield from (decisions, rewards, earned)
        waiting = GaugeMetricFamily(
            "sparing_open_calls", "Calls without a reward yet.", labels=["experiment"]
        )
        seq = GaugeMetricFamily("sparing_model_seq", "The last event applied.", labels=["experiment"])
        for experiment in self._shown:
            waiting.add_metric([experiment.name], len(experiment.model.open))
            seq.add_metric([experiment.name], experiment.model.seq)
        yield from (waiting, seq)
        writer = self._service.writer
        yield CounterMetricFamily("sparing_groups", "Groups committed by this worker.", value=writer.groups)
        took = SummaryMetricFamily("sparing_decide_seconds", "From a request to its commit, here.")
        took.add_metric([], writer.decided, writer.decided_seconds)
        yield took
        yield GaugeMetricFamily(
            "sparing_alarms", "What an operator must look at.", value=len(self._service.alarms)
        )


def _add(
    decisions: CounterMetricFamily,
    rewards: CounterMetricFamily,
    earned: GaugeMetricFamily,
    name: str,
    totals: list[Total],
) -> None:
    counted: dict[tuple[str, str, str], int] = {}
    arms: dict[str, tuple[int, float]] = {}
    for one in totals:
        key = (one.reason, one.arm, str(bool(one.asked)).lower())
        counted[key] = counted.get(key, 0) + one.decisions
        many, total = arms.get(one.arm, (0, 0.0))
        arms[one.arm] = many + one.rewarded, total + one.reward_sum
    for key, count in counted.items():
        decisions.add_metric([name, *key], count)
    for arm, (many, total) in arms.items():
        rewards.add_metric([name, arm], many)
        earned.add_metric([name, arm], total)


async def text(service: Service, only: str | None) -> bytes:
    """All metrics, or those of one experiment, as Prometheus reads them."""
    shown = [one for one in service.book if only in (None, one.name)]
    totals = {one.name: await service.store.totals(one.number) for one in shown}
    registry = CollectorRegistry()
    registry.register(Numbers(service, shown, totals))
    return generate_latest(registry)
