"""The routes of the application, and metrics for Prometheus."""

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from prometheus_client import CollectorRegistry
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, Metric, SummaryMetricFamily
from prometheus_client.exposition import CONTENT_TYPE_LATEST, generate_latest
from prometheus_client.registry import Collector
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import BaseRoute, Route

from sparing.service import page
from sparing.service.errors import ServiceError, not_found
from sparing.service.http import decisions, experiments, personalizer
from sparing.service.http.auth import COOKIE, SESSION
from sparing.service.http.endpoint import (
    ENDPOINTS,
    MAX_SESSION_BODY,
    Call,
    Reply,
    endpoint,
    openapi_document,
    problem,
    respond,
)
from sparing.service.messages import SessionRequest
from sparing.service.registry import Experiment
from sparing.service.server import Service
from sparing.service.store.store import HourlyTotal

KIND = CONTENT_TYPE_LATEST.encode()

DECLARED = (decisions, experiments, personalizer)  # importing them registers their endpoints


@dataclass(eq=False)
class ServiceCollector(Collector):
    """Metrics of this worker, and totals of the store."""

    service: Service
    shown: list[Experiment]
    totals: dict[str, list[HourlyTotal]]
    alarms: int

    def collect(self) -> Iterator[Metric]:
        kinds = ["experiment", "reason", "arm", "asked"]
        decisions = CounterMetricFamily("sparing_decisions", "Decisions.", labels=kinds)
        rewards = CounterMetricFamily("sparing_rewards", "Rewards.", labels=["experiment", "arm"])
        earned = GaugeMetricFamily("sparing_reward_sum", "Sum of rewards.", labels=["experiment", "arm"])
        for name, totals in self.totals.items():
            counted: Counter[tuple[str, ...]] = Counter()
            sums: dict[str, np.ndarray] = {}
            for one in totals:
                counted[one.reason, one.arm, str(bool(one.asked)).lower()] += one.decisions
                sums.setdefault(one.arm, np.zeros(2))[:] += one.rewarded, one.reward_sum
            for key, count in counted.items():
                decisions.add_metric([name, *key], count)
            for arm, (rewarded, total) in sums.items():
                rewards.add_metric([name, arm], rewarded)
                earned.add_metric([name, arm], total)
        yield from (decisions, rewards, earned)
        waiting = GaugeMetricFamily(
            "sparing_open_calls", "Calls without a reward yet.", labels=["experiment"]
        )
        seq = GaugeMetricFamily("sparing_model_seq", "The last event applied.", labels=["experiment"])
        unseen = CounterMetricFamily(
            "sparing_unseen",
            "Decisions of this worker with a value that the log never had, or a clipped number.",
            labels=["experiment"],
        )
        shift = GaugeMetricFamily(
            "sparing_shift",
            "Shift between log and live, in deviations between actions; 0 while live rewards show none.",
            labels=["experiment"],
        )
        changes = GaugeMetricFamily(
            "sparing_changes",
            "Changes of rewards and contexts that were found.",
            labels=["experiment", "about"],
        )
        for experiment in self.shown:
            found = experiment.model.learner.shift
            if found is not None:
                shift.add_metric([experiment.name], found.size)
            alarms = [one.about for one in experiment.model.learner.alarms]
            for about in ("rewards", "contexts"):
                changes.add_metric([experiment.name, about], alarms.count(about))
            unseen.add_metric([experiment.name], experiment.unseen)
            waiting.add_metric([experiment.name], len(experiment.model.open))
            seq.add_metric([experiment.name], experiment.model.seq)
        yield from (waiting, seq, unseen, changes, *([shift] if shift.samples else []))
        writer = self.service.writer
        yield CounterMetricFamily("sparing_groups", "Groups committed by this worker.", value=writer.groups)
        took = SummaryMetricFamily("sparing_decide_seconds", "From a request to its commit, here.")
        took.add_metric([], writer.decided, writer.decided_seconds)
        yield took
        yield GaugeMetricFamily(
            "sparing_ready", "1 if /readyz answers 200.", value=float(self.service.why_unready() is None)
        )
        yield GaugeMetricFamily("sparing_alarms", "Alarms on the dashboard.", value=self.alarms)


async def text(service: Service, only: str | None) -> bytes:
    """Return all metrics, or those of one experiment, in the format of Prometheus."""
    shown = [one for one in service.registry if only in (None, one.name)]
    totals = {one.name: await service.store.totals(one.number) for one in shown}
    alarms = set(service.alarms_of(only))
    for one in shown:
        looks = (await experiments.page_of(service, one)).look
        found = [each.text for each in looks if each.level == "alarm" and each.text not in alarms]
        alarms |= {f"{one.name}: {text}" for text in found}
    registry = CollectorRegistry()
    registry.register(ServiceCollector(service, shown, totals, len(alarms)))
    return generate_latest(registry)


@endpoint("POST", "/session", role=None, status=204, limit=MAX_SESSION_BODY)
async def session(service: Service, call: Call, body: SessionRequest) -> Reply:
    """Exchange a key for a read-only session cookie, for the dashboard."""
    return _set_cookie(call, service.guard.session(body.key), SESSION)


@endpoint("DELETE", "/session", role=None, status=204)
async def leave(service: Service, call: Call) -> Reply:
    """Delete the session cookie."""
    return _set_cookie(call, "", 0)


def _set_cookie(call: Call, value: str, seconds: int) -> Reply:
    secure = "; Secure" if value and call.scope.get("scheme") == "https" else ""
    cookie = f"{COOKIE}={value}; HttpOnly; SameSite=Strict; Path=/; Max-Age={seconds}{secure}"
    return Reply(204, headers=((b"set-cookie", cookie.encode()),))


@endpoint("GET", "/metrics", role="read")
async def prometheus(service: Service, call: Call) -> Reply:
    """Metrics in the format of Prometheus."""
    return Reply(200, await text(service, call.caller.experiment), ((b"content-type", KIND),))


async def healthz(request: Request) -> Response:
    return Response("ok\n", media_type="text/plain")


async def readyz(request: Request) -> Response:
    service: Service = request.app.service
    why = service.why_unready()
    return Response(f"{why or 'ready'}\n", 503 if why else 200, media_type="text/plain")


async def document(request: Request) -> Response:
    return Response(openapi_document(ENDPOINTS), media_type="application/json")


async def page_file(request: Request) -> Response:
    content, kind = page.read(request.url.path)
    return Response(content, headers={**page.HEADERS, "content-type": kind})


class Fallthrough:
    """Answer requests that no route matches."""

    def __init__(self, served: Sequence[Route]) -> None:
        self._served = served

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
        path, method = scope["path"], scope["method"]
        theirs = path.startswith("/personalizer/")
        found = [one.methods or set() for one in self._served if one.matches(scope)[0].value]
        known = sorted(set[str]().union(*found))
        error = not_found(f"unknown path {path}; see /openapi.json")
        if known:
            error = ServiceError(
                405, "method", f"method {method} is not allowed here; must be {' or '.join(known)}"
            )
        elif theirs:
            error = personalizer.unserved(path)
        reply = personalizer.microsoft(error) if theirs else problem(error)
        if known:
            reply = reply._replace(headers=(*reply.headers, (b"allow", ", ".join(known).encode())))
        await respond(send, reply, head=method == "HEAD")


def routes() -> Sequence[BaseRoute]:
    often_first = sorted(ENDPOINTS, key=lambda one: one.handler.__module__ != decisions.__name__)
    served = [each.route() for each in often_first]
    served += [
        Route("/healthz", healthz),
        Route("/readyz", readyz),
        Route("/openapi.json", document),
        *(Route(path, page_file) for path in page.FILES),
    ]
    return [*served, Route("/{path:any}", Fallthrough(served))]
