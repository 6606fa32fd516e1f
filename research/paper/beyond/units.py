"""The pieces of work: one for each world, log and seed, with a record for each who takes part.

Ours come first. Outsiders have pieces of their own, so that what is not installed changes no other piece.
"""

import itertools
from collections.abc import Iterable, Iterator
from dataclasses import asdict

from research.paper.beyond import outsiders, vowpal
from research.paper.beyond.setting import PLAIN, Setting, Size, Variant
from research.paper.beyond.vowpal import Tuned
from research.paper.experiment import Record

WORLD, BUDGET, ROBUST, CLASSES, ROUTING = "world", "budget", "robust", "classes", "routing"
"""Kinds of pieces: synthetic worlds as they are told, within a budget, and as they are not told; data sets; prompts."""

GUESTS = (*vowpal.EXPLORATION, *outsiders.NAMES)
"""Other libraries' learners."""


def units(setting: Setting) -> list[Record]:
    """All pieces of work."""
    worlds = [*_worlds(setting), *_budgets(setting), *_robust(setting)]
    return [*worlds, *_classes(setting), *_routing(setting), *_outside(setting)]


def _worlds(setting: Setting) -> Iterator[Record]:
    for size, support, seed in itertools.product(setting.sizes, setting.supports, setting.seeds):
        yield _world(setting, size, support, seed, _live(setting))
    for size, support, seed in itertools.product(setting.sizes, setting.supports, setting.further):
        yield _world(setting, size, support, seed, [{"name": "log_alone"}, *_priced(setting)])


def _budgets(setting: Setting) -> Iterator[Record]:
    """In the first size, at most so many calls: economical is told them, confident is cut when they are made."""
    cut = ({"name": "confident", "tolerance": setting.cut, "budget": budget} for budget in setting.budgets)
    learners = [*cut, *({"name": "economical", "budget": budget} for budget in setting.budgets)]
    for support, seed in itertools.product(setting.budget_supports, setting.seeds):
        yield _world(setting, setting.sizes[0], support, seed, learners, kind=BUDGET)


def _robust(setting: Setting) -> Iterator[Record]:
    """Who is compared at one price, in the first size, where something is not as learners are told."""
    compared = [
        {"name": "log_alone"},
        *_tolerant("confident", setting.confident[1:]),
        *_tolerant("certified", setting.certified[:1], radius_scale=setting.radius_scale),
        {"name": "economical", "price": setting.variant_price},
    ]
    for variant in setting.variants:
        for support, seed in itertools.product(variant.supports, setting.seeds):
            yield _world(setting, setting.sizes[0], support, seed, compared, variant, kind=ROBUST)


def _world(
    setting: Setting,
    size: Size,
    support: str,
    seed: int,
    learners: list[Record],
    variant: Variant = PLAIN,
    kind: str = WORLD,
) -> Record:
    return {
        "kind": kind,
        "part": variant.name if kind == ROBUST else size.name,
        "place": support,
        "actions": size.actions,
        "features": size.features,
        "rows": size.rows,
        "unsupported": setting.unsupported,
        "rounds": setting.rounds,
        "variant": {key: value for key, value in asdict(variant).items() if key not in ("name", "supports")},
        "seed": seed,
        "learners": learners,
    }


def _classes(setting: Setting) -> Iterator[Record]:
    for name, seed in itertools.product(setting.data, setting.seeds):
        scaled = {"radius_scale": setting.radius_scale}
        certified = _tolerant("certified", setting.class_certified, **scaled)
        confident = _tolerant("confident", setting.class_confident)
        ips = {"name": "eps_moful_ips", **scaled}
        yield _set(setting, name, seed, _compared(setting, [ips, *certified, *confident]))


def _set(setting: Setting, name: str, seed: int, learners: list[Record]) -> Record:
    return {
        "kind": CLASSES,
        "part": "data sets",
        "place": name,
        "unsupported": setting.class_unsupported,
        "rounds": setting.class_rounds,
        "ridge": setting.class_ridge,
        "seed": seed,
        "learners": learners,
    }


def _routing(setting: Setting) -> Iterator[Record]:
    for weight, hidden, seed in itertools.product(setting.weights, setting.hidden, setting.seeds):
        certified = _tolerant("certified", setting.routed_certified, radius_scale=setting.radius_scale)
        confident = _tolerant("confident", setting.routed_confident)
        yield _routed(weight, hidden, seed, _compared(setting, [*certified, *confident]))


def _routed(weight: float, hidden: int, seed: int, learners: list[Record]) -> Record:
    return {
        "kind": ROUTING,
        "part": "llm-routing",
        "place": f"w = {weight:g}, {('cheapest', 'middle', 'dearest')[hidden]} untried",
        "weight": weight,
        "hidden": hidden,
        "seed": seed,
        "learners": learners,
    }


def _live(setting: Setting) -> list[Record]:
    """All who learn from the log of a synthetic world."""
    scaled = {"radius_scale": setting.radius_scale}
    certified = _tolerant("certified", setting.certified, **scaled)
    confident = _tolerant("confident", setting.confident)
    return _compared(setting, [{"name": "eps_moful_ips", **scaled}, *certified, *confident])


def _compared(setting: Setting, others: list[Record]) -> list[Record]:
    """The log alone and who calls every round, `others`, and `economical` at each price."""
    always = {"name": "warm_started", "radius_scale": setting.radius_scale}
    return [{"name": "log_alone"}, {"name": "greedy"}, always, *others, *_priced(setting)]


def _priced(setting: Setting) -> Iterator[Record]:
    return ({"name": "economical", "price": price} for price in setting.prices)


def _tolerant(name: str, tolerances: tuple[float, ...], **more: float) -> Iterator[Record]:
    return ({"name": name, "tolerance": value, **more} for value in tolerances)


def _outside(setting: Setting) -> Iterator[Record]:
    """Each outsider apart, on its first seeds; where it is not installed its version is null and it is not run."""
    wabbit, bayesian, pareto = vowpal.installed(), *(outsiders.version(name) for name in outsiders.NAMES)
    few, fewer = setting.seeds[: setting.outside_seeds], setting.seeds[: setting.bayesian_seeds]
    guest = {"name": "bayesianbandits", "version": bayesian}
    for support in setting.supports:
        for seed, record in _pairs(few, setting.tuned.worlds, wabbit, fewer, guest):
            yield _world(setting, setting.sizes[0], support, seed, [record])
    for name in setting.data:
        for seed, record in _pairs(few, setting.tuned.classes, wabbit, fewer, guest):
            yield _set(setting, name, seed, [record])
    linucb = {"name": "paretobandit", "version": pareto}
    for weight, hidden in itertools.product(setting.weights, setting.hidden):
        for seed, record in _pairs(few, setting.tuned.routing, wabbit, fewer, guest):
            yield _routed(weight, hidden, seed, [record])
        yield from (_routed(weight, hidden, seed, [linucb]) for seed in few)


def _pairs(
    few: Iterable[int], tuned: tuple[Tuned, ...], version: str | None, fewer: Iterable[int], guest: Record
) -> Iterator[tuple[int, Record]]:
    for seed, one in itertools.product(few, tuned):
        yield seed, vowpal.record(one, version)
    yield from ((seed, guest) for seed in fewer)
