"""Adding and retiring actions, and estimating the prior again from all rows so far."""

from collections.abc import Hashable, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np

from sparing.errors import DecisionError, SettingError
from sparing.log.costs import action_costs
from sparing.log.labels import normalize_label
from sparing.model.posterior import as_features
from sparing.model.prior import BETWEEN, evidence_prior, spread_between_actions
from sparing.online import algorithms, drift
from sparing.online.confidence_sets import packed
from sparing.online.engine import state, updates
from sparing.online.log_beats import LogBeats
from sparing.online.rules import SupportedRule
from sparing.online.start import centred_sets, posterior_sets

if TYPE_CHECKING:
    from sparing.online.learner import Learner


def add(
    learner: "Learner", name: Hashable, features: Sequence[float] | None, cost: float | None = None
) -> None:
    """Add an action: it starts at Ŵz_a, with covariance S + C_a or in a set with its own share of δ."""
    label, sets, prior = normalize_label(name), learner.sets, learner.prior
    if label in learner.action_names:
        raise DecisionError(f"action {label!r} is there already")
    if any(isinstance(rule, SupportedRule | LogBeats) for rule in learner.rules):
        raise SettingError(
            f"{learner.algorithm} takes its actions from the log and cannot add others; use confident or certified"
        )
    proved = sets.arrays.kind != state.CONSTANT
    if proved and not sets.growing:
        raise SettingError(
            "the sets' δ is shared among the actions of the start. Make the learner with growing=True: they then share δ/2, "
            "and the j-th added action has δ/(2j(j+1)), so that the guarantee holds for endless additions"
        )
    known = learner.action_costs
    if (cost is None) != (known is None):
        expected = "no cost: it knows none" if known is None else "its cost, as the others have"
        raise SettingError(f"cost={cost!r} for action {label!r}; this learner expects {expected}")
    costs = None if known is None else np.append(known, action_costs([cost], [label]))
    many = prior.items.shape[1] - 1 if prior is not None else 0
    if (features is None) != (many == 0):
        expected = f"{many} features, as its items had" if many else "no features: it was made without items"
        raise SettingError(f"features={features!r} for action {label!r}; this learner expects {expected}")
    z = np.ones((1, 1)) if prior is None or features is None else prior.place(as_features(features, many))
    matrix = response = None
    if proved:
        center = 0.0 if prior is None else prior.centers(z)[0]
        response = sets.assumptions.ridge * (center + np.zeros(learner.n_features))
    elif prior is not None and many:
        d = learner.n_features
        full, responses = prior.start(np.zeros((1, d, d)), np.zeros((1, d)), z)
        matrix, response = packed(full)[0], responses[0]
    sets.add(matrix, response)
    learner.prior = None if prior is None else prior.joined(z)
    learner.set_actions((*learner.action_names, label))
    learner.watch.add_actions(learner.n_actions)
    if costs is not None:
        learner.apply_costs(costs)


def refresh(learner: "Learner") -> None:
    """Estimate the prior from all rows so far, logged and live, and start every set from it."""
    prior, old = learner.prior, learner.sets
    if prior is None:
        raise SettingError(f"{learner.algorithm} has no prior to relearn; confident and certified do")
    sums, assumptions, bayesian = old.rows(), old.assumptions, old.arrays.kind == state.CONSTANT
    guessed = bayesian and "noise" in assumptions.estimated
    known = prior.given
    scale = float(prior.spread[0]) if "scale" in known else None
    mean = prior.weights[0] if "mean" in known else None
    if BETWEEN in known:
        scale, mean = spread_between_actions(sums, prior.blocks, assumptions.ridge) or (scale, mean)
    prior = evidence_prior(
        sums,
        blocks=prior.blocks,
        items=prior.items,
        standard=prior.standard,
        noise=None if guessed else assumptions.noise,
        scale=scale,
        mean=mean,
    )
    prior = replace(prior, given=known)
    if bayesian:
        sets, prior = posterior_sets(
            sums,
            assumptions,
            prior,
            old.misfit,
            context_sample=old.arrays.context_sample,
            shift=drift.largest_shift(old),
        )
        sets.take_sample(old)
        sets.take_change(old, prior.spread)
    else:
        sets = centred_sets(sums, assumptions, prior, growing=old.growing, added=old.added)
    # What the rows do not contain: live counts, order of ties, retired actions, pending calls, monitored noise.
    a, before = sets.arrays, old.arrays
    sets.added, a.digest = old.added, before.digest
    slots = a.observed_slot
    a.logged[slots], a.live[slots] = old.logged * (slots > 0), old.live * (slots > 0)
    sets.prioritise(old.ties)
    if before.sigma and not guessed:
        a.sigma, a.calls, a.residual_sum = before.sigma, before.calls, before.residual_sum
        a.common, a.faded_calls = before.common, before.faded_calls
    if len(before.cost):
        sets.set_costs(before.cost, own_slots=learner.uses_voi)
    for gone in np.flatnonzero(~before.active).tolist():
        sets.retire(gone)
    for action, x, predicted in learner.pending_calls():
        sets.grow_capacity()
        updates.add_imputed(sets.scratch.pending, action, x, predicted)
        sets.refresh_bounds(int(sets.arrays.pending_slot[action]))
    learner.sets, learner.prior = sets, prior
    learner._guarantee = algorithms.guarantee_of(learner.rules, sets.assumptions, prior)
    learner.set_actions(learner.action_names)


def retire(learner: "Learner", name: Hashable) -> None:
    """Stop playing an action; its rows are kept."""
    action = learner.index(name)
    left = learner.active()
    if not left[action]:
        raise DecisionError(f"action {name!r} is retired already")
    if left.sum() == 1:
        raise DecisionError(f"action {name!r} is the last that may be played; add another one first")
    learner.sets.retire(action)
    learner.set_actions(learner.action_names)
