"""Fig. 3: what the policies earn that a budget of reward calls has bought (claim C4)."""

from collections.abc import Iterator
from dataclasses import asdict, dataclass, replace
from itertools import pairwise, product

import numpy as np

from research import learners
from research.learners import IPS, OFFLINE, OPR, ROLES, label
from research.paper import sweeps
from research.paper.experiment import Analysis, Experiment, Pairs, Record, Verdict
from research.paper.frame import Frame
from research.paper.intervals import Interval
from research.paper.judging import Findings, above, below, counted, every, where, within, word
from research.paper.sweeps import BEYOND
from research.paper.synthetic import Synthetic
from sparing.log import Log
from sparing.policies.policy import Policy
from sparing.simulation import LinearWorld, logging_policy, simulate

CHEAP = tuple(method for method in OFFLINE if method != "opr")
"""Offline methods that take a tenth of a second: policy restriction takes seconds."""

MAIN = "main"
VARIANTS: dict[str, Record] = {
    "d = 1": {"features": 1},
    "d = 2": {"features": 2},
    "d = 10": {"features": 10},
    "never-logged": {"support": "never-logged"},
}
"""Other settings in which the comparison is made, without policy restriction."""

EVALUATION_STREAM = 5
"""The random stream of the contexts on which policies are scored."""

WHERE = ("variant", "scale", "algorithm", "unsupported")
METRICS = ("reward", "share", "calls", "rounds", "regret")
"""`share` is the reward as a share of what the best policy earns."""

FLAT = 0.02
"""mOFUL is flat if its reward changes by less than this share of it."""

SMALL = 0.2
"""The largest n^UA that counts as small."""

ONLINE = ("moful", "eps_moful", "eps_moful_ips")
"""The paper's algorithms beside OPR."""


@dataclass(frozen=True)
class Setting:
    """A budget of reward calls, and the shares n^UA of unsupported actions over which it is spent.

    The rounds end when the budget is used up, or after `longest` of them. The final policies are scored by
    their expected reward over `evaluation` fresh contexts. Each of `variants` is run at `variant_unsupported`.
    Policy restriction chooses k of three and l2 among `opr_l2` (in deviations of the reward) by `opr_folds` folds.
    """

    seeds: tuple[int, ...] = tuple(range(20))
    unsupported: tuple[float, ...] = (0.0, 0.2, 0.4, 0.6, 0.8)
    radius_scales: tuple[float, ...] = (1.0, 0.2)
    budget: int = 300
    longest: int = 30_000
    evaluation: int = 10_000
    opr_l2: tuple[float, ...] = (1e-4, 1e-3)
    opr_folds: int = 3
    variants: tuple[str, ...] = tuple(VARIANTS)
    variant_unsupported: tuple[float, ...] = (0.2,)
    synthetic: Synthetic = Synthetic(supported=10)  # noqa: RUF009 (frozen)

    @property
    def cells(self) -> list[tuple[str, float]]:
        """The figure's own shares, then those of the variants."""
        return [(MAIN, share) for share in self.unsupported] + list(
            product(self.variants, self.variant_unsupported)
        )


FULL = Setting()
QUICK = replace(
    FULL,
    seeds=tuple(range(6)),
    unsupported=(0.0, 0.2, 0.8),
    longest=6_000,
    opr_l2=(1e-4,),
    opr_folds=2,
    variants=(),
)


def units(setting: Setting) -> list[Record]:
    """One unit a seed, variant and share of unsupported actions: all algorithms at all radius scales."""
    return [
        _unit(setting, variant, share, seed) for seed in setting.seeds for variant, share in setting.cells
    ]


def _unit(setting: Setting, variant: str, share: float, seed: int) -> Record:
    changes: Record = VARIANTS.get(variant, {})
    world = replace(setting.synthetic, unsupported=share, seed=seed, **changes)
    return {
        "variant": variant,
        "synthetic": asdict(world),
        "radius_scales": list(setting.radius_scales),
        "budget": setting.budget,
        "longest": setting.longest,
        "evaluation": setting.evaluation,
        "opr_l2": list(setting.opr_l2),
        "opr_folds": setting.opr_folds,
        **ROLES,
        "offline": list(OFFLINE if variant == MAIN else CHEAP),
    }


def run(unit: Record) -> Record:
    """Expected reward, calls, rounds and regret of every algorithm; `best` is what the best policy earns."""
    setting = Synthetic(**unit["synthetic"])
    world = setting.world()
    log = setting.log(world)
    score = _Score(world, unit["evaluation"], setting.seed)
    outcomes = list(_offline(setting, world, log, score, unit))
    for scale in unit["radius_scales"]:
        scaled = replace(setting, radius_scale=scale)
        outcomes += [
            {**_live(name, scaled, world, log, score, unit), "scale": scale} for name in unit["scaled"]
        ]
    outcomes += [_live(name, setting, world, log, score, unit) for name in unit["scale_free"]]
    return {"best": score.best, "outcomes": outcomes}


class _Score:
    """Scores policies by their expected reward over one set of fresh contexts."""

    def __init__(self, world: LinearWorld, contexts: int, seed: int) -> None:
        self.contexts = world.contexts(contexts, np.random.default_rng([seed, EVALUATION_STREAM]))
        self.means = world.means(self.contexts)
        self.best = float(self.means.max(axis=1).mean())

    def __call__(self, policy: Policy) -> float:
        """mean_x Σ_a π(a|x)·x·θ*_a."""
        return float((policy.probabilities(self.contexts) * self.means).sum(axis=1).mean())


def _offline(
    setting: Synthetic, world: LinearWorld, log: Log, score: _Score, unit: Record
) -> Iterator[Record]:
    logger = logging_policy(setting.support, world, unsupported=setting.unsupported, seed=setting.seed)
    options = {"l2": unit["opr_l2"], "folds": unit["opr_folds"], "seed": setting.seed}
    for name in unit["offline"]:
        policy = learners.offline(name, log, logger=logger, **options)
        yield {"algorithm": name, "reward": score(policy), "calls": 0, "rounds": 0, "regret": 0.0}


def _live(name: str, setting: Synthetic, world: LinearWorld, log: Log, score: _Score, unit: Record) -> Record:
    """Rounds until the budget of calls is spent, or the longest run is over."""
    learner = setting.learner(name, world, log)
    trace = simulate(
        learner,
        world,
        rounds=unit["longest"],
        seed=setting.seed,
        stream=setting.stream,
        log=log,
        call_budget=unit["budget"],
    )
    return {
        "algorithm": name,
        "reward": score(learner.policy()),
        "calls": learner.calls,
        "rounds": len(trace),
        "regret": float(trace.losses.sum()),
    }


def frame(results: Pairs) -> Frame:
    """A row a run."""
    return Frame(
        {
            "variant": unit["variant"],
            "scale": outcome.get("scale"),
            "algorithm": outcome["algorithm"],
            "shown": label(outcome["algorithm"]),
            "unsupported": unit["synthetic"]["unsupported"],
            "seed": unit["synthetic"]["seed"],
            "share": outcome["reward"] / result["best"],
            **{name: outcome[name] for name in METRICS if name != "share"},
        }
        for unit, result in results
        for outcome in result["outcomes"]
    )


def place(scale: float, share: float, variant: str = MAIN) -> Record:
    """Where learners are compared."""
    return {"variant": variant, "scale": scale, "unsupported": share}


def analyse(setting: Setting, results: Pairs) -> Analysis:
    """Means and differences by n^UA and radius scale, and what becomes of C4."""
    runs = frame(results)
    places = [
        place(scale, share, variant)
        for scale, (variant, share) in product(setting.radius_scales, setting.cells)
    ]
    gains = sweeps.gains(runs, places, ("reward",))
    names = (*WHERE, "value", "low", "high")
    tables = {
        "summary": sweeps.summary(runs, ("variant", "scale", "algorithm", "shown", "unsupported"), METRICS),
        "differences": {name: gains[name] for name in names},
        "runs": sweeps.listed(runs, WHERE, METRICS),
    }
    numbers = {
        "best": sum(result["best"] for _, result in results) / len(results),
        "short_of_budget": list(_short(setting, runs)),
    }
    claims = (opr_is_worst, opr_falls, moful_is_flat, known_actions_help, ips_is_best)
    return Analysis(numbers, tables, tuple(claim(setting, runs) for claim in claims))


def _short(setting: Setting, runs: Frame) -> Iterator[Record]:
    """Where the calls of the budget did not come within the longest run, and how many came."""
    for (scale, algorithm, share), found in runs.where(variant=MAIN).by(*WHERE[1:]).items():
        short = [calls for calls in found["calls"] if calls < setting.budget]
        if short and algorithm not in OFFLINE:
            yield {
                "algorithm": algorithm,
                "radius_scale": scale,
                "unsupported": share,
                "seeds": len(short),
                "fewest_calls": min(short),
            }


def _gap(runs: Frame, first: str, second: str, scale: float, share: float, variant: str = MAIN) -> Interval:
    """Reward of the first less that of the second."""
    return sweeps.gap(runs, first, second, place(scale, share, variant), "reward")


def opr_is_worst(setting: Setting, runs: Frame) -> Verdict:
    """OPR below mOFUL, ε-mOFUL and ε-mOFUL-IPS at every n^UA."""
    findings, gaps = {}, {}
    for scale, opr in product(setting.radius_scales, OPR):
        found = {}
        for at in setting.unsupported:
            differences = [_gap(runs, opr, other, scale, at) for other in ONLINE]
            found[f"{at:g}"] = every(map(below, differences))
            gaps[opr, scale, at] = max(differences, key=lambda gap: gap.value)
        findings[f"{label(opr)}, radius × {scale:g}, at n^UA"] = found
    ends = setting.unsupported[0], setting.unsupported[-1]
    texts = [
        f"{label(opr)} less the lowest of the others at radius × {scale:g}: "
        + ", ".join(f"{gaps[opr, scale, at].text()} (n^UA {at:g})" for at in ends)
        for opr, scale in product(OPR, setting.radius_scales)
    ]
    return _verdict(
        "OPR worst", "OPR has the worst average reward for every n^UA", "; ".join(texts), findings
    )


def opr_falls(setting: Setting, runs: Frame) -> Verdict:
    """OPR earns less at each next n^UA."""
    findings, texts = {}, []
    for opr in OPR:
        found = [sweeps.at(runs, opr, place(setting.radius_scales[0], at)) for at in setting.unsupported]
        steps = [after.less(before, "reward") for before, after in pairwise(found)]
        names = [f"{at:g}" for at in setting.unsupported[1:]]
        findings[f"{label(opr)}, on the step to n^UA"] = dict(zip(names, map(below, steps), strict=True))
        texts.append(f"{label(opr)} {', '.join(one.mean('reward').text() for one in found)}")
    levels = ", ".join(f"{at:g}" for at in setting.unsupported)
    measured = f"Reward at n^UA {levels}: {'; '.join(texts)}"
    return _verdict("OPR falls", "OPR gets worse the more actions are unsupported", measured, findings)


def moful_is_flat(setting: Setting, runs: Frame) -> Verdict:
    """mOFUL earns the same at every n^UA, within 2 %."""
    findings, texts = {}, []
    first, *others = setting.unsupported
    for scale in setting.radius_scales:
        start = sweeps.at(runs, "moful", place(scale, first))
        changes = {at: sweeps.at(runs, "moful", place(scale, at)).less(start, "reward") for at in others}
        margin = FLAT * abs(start.mean("reward").value)
        findings[f"radius × {scale:g}, at n^UA"] = {
            f"{at:g}": within(change, margin) for at, change in changes.items()
        }
        largest = max(changes.values(), key=lambda one: abs(one.value))
        texts.append(f"Largest change from n^UA {first:g} at radius × {scale:g}: {largest.text()}")
    measured = (
        "; ".join(texts) + ". mOFUL never reads the log, and here it meets the same rounds whatever n^UA is"
    )
    return _verdict("mOFUL flat", "mOFUL earns nearly the same for all n^UA", measured, findings)


def known_actions_help(setting: Setting, runs: Frame) -> Verdict:
    """ε-mOFUL and ε-mOFUL-IPS above mOFUL."""
    findings, texts = {}, []
    for scale, name in product(setting.radius_scales, ("eps_moful", *IPS)):
        gaps = {f"{at:g}": _gap(runs, name, "moful", scale, at) for at in setting.unsupported}
        findings[f"{label(name)}, radius × {scale:g}, at n^UA"] = {at: above(gap) for at, gap in gaps.items()}
        texts.append(f"{label(name)}, radius × {scale:g}: {_range(gaps)}")
    measured = f"Reward less mOFUL's, least to most over n^UA: {'; '.join(texts)}"
    says = "ε-mOFUL and ε-mOFUL-IPS earn more than mOFUL"
    return _verdict("ε variants above mOFUL", says, measured, findings, _variants(setting, runs))


def ips_is_best(setting: Setting, runs: Frame) -> Verdict:
    """ε-mOFUL-IPS above all others of the paper where few actions are unsupported."""
    findings, texts = {}, []
    for scale, name in product(setting.radius_scales, IPS):
        found = {}
        for at in (at for at in setting.unsupported if at <= SMALL):
            gaps = {other: _gap(runs, name, other, scale, at) for other in ("moful", "eps_moful", *OPR)}
            found[f"{at:g}"] = every(map(above, gaps.values()))
            best = min(gaps, key=lambda other: gaps[other].value)
            texts.append(
                f"{label(name)} at n^UA {at:g}, radius × {scale:g}: {gaps[best].text()} over {label(best)}"
            )
        findings[f"{label(name)}, radius × {scale:g}, at n^UA"] = found
    measured = f"Reward less the best of the paper's others: {'; '.join(texts)}"
    says = f"ε-mOFUL-IPS earns the most for small n^UA (at most {SMALL:g})"
    return _verdict("ε-mOFUL-IPS best", says, measured, findings, f". {_beyond(setting, runs)}")


def _beyond(setting: Setting, runs: Frame) -> str:
    """Where the log's own regression and our learners stand."""
    parts = []
    for name, scale in product(BEYOND, setting.radius_scales):
        gaps = {f"{at:g}": _gap(runs, name, "eps_moful_ips", scale, at) for at in setting.unsupported}
        parts.append(f"{label(name)} {_range(gaps)} at radius × {scale:g}")
    return (
        "Not in the paper: reward less that of ε-mOFUL-IPS, least to most over n^UA (greedy ridge makes "
        f"no calls at all): {'; '.join(parts)}"
    )


def _variants(setting: Setting, runs: Frame) -> str:
    """The same comparison in other settings."""
    parts = [
        f"{variant}, radius × {scale:g} {_gap(runs, 'eps_moful', 'moful', scale, at, variant).text()}"
        for variant, at, scale in product(
            setting.variants, setting.variant_unsupported, setting.radius_scales
        )
    ]
    levels = ", ".join(f"{at:g}" for at in setting.variant_unsupported)
    return f". ε-mOFUL less mOFUL elsewhere (n^UA {levels}): {'; '.join(parts)}" if parts else ""


def _range(gaps: dict[str, Interval]) -> str:
    return " to ".join(f"{gaps[at].text()} (n^UA {at})" for at in sweeps.span(gaps))


def _verdict(part: str, says: str, measured: str, findings: Findings, when: str = "") -> Verdict:
    texts = f"{counted(findings)}. {measured}"
    return Verdict("C4", f"Fig. 3: {part}", says, texts, word(findings), where(findings) + when)


EXPERIMENT = Experiment(
    name="fig3",
    title="Average reward after 300 reward calls, by the share of unsupported actions",
    quick=QUICK,
    full=FULL,
    units=units,
    run=run,
    analyse=analyse,
)
