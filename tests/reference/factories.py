"""Every learner with its main options, built from any log: what the contract must hold for."""

import numpy as np

import sparing

GIVEN = {"noise": 0.5, "theta_bound": 2.0, "context_bound": 2.0}


def _first(log):
    """𝓛 of one action with given parameters: needs no rows."""
    return sparing.supported_actions({log.action_names[0]: np.linspace(1.5, -1.5, log.n_features)})


def _cold(log):
    return {"actions": log.action_names, "n_features": log.n_features}


FACTORIES = {
    "moful": lambda log, **s: sparing.moful(log, **s),
    "moful cold": lambda log, **s: sparing.moful(**_cold(log), **s),
    "moful paper": lambda log, **s: sparing.moful(log, radius="paper", **s),
    "eps_moful": lambda log, **s: sparing.eps_moful(log, supported=_first(log), radius_scale=0.2, **s),
    "eps_moful inflated": lambda log, **s: sparing.eps_moful(
        log, supported=_first(log), inflate=0.1, radius_scale=0.2, **s
    ),
    "eps_moful_ips": lambda log, **s: sparing.eps_moful_ips(
        log, supported=_first(log), radius_scale=0.2, **s
    ),
    "eps_moful_ips policy": lambda log, **s: sparing.eps_moful_ips(
        log, supported=_first(log), clip="inf", answer="policy", radius_scale=0.1, **s
    ),
    "eps_moful_ips limit": lambda log, **s: sparing.eps_moful_ips(
        log, supported=_first(log), beats="limit", radius_scale=0.1, **s
    ),
    "warm_started": lambda log, **s: sparing.warm_started(log, **s),
    "warm_started trace": lambda log, **s: sparing.warm_started(log, radius="trace", ridge=0.3, **s),
    "certified": lambda log, **s: sparing.certified(log, tolerance=0.5, radius_scale=0.3, **s),
    "certified wider": lambda log, **s: sparing.certified(
        log, tolerance=0.3, explore="wider", radius_scale=0.2, **s
    ),
    "certified never": lambda log, **s: sparing.certified(log, tolerance=-np.inf, **s),
    "confident": lambda log, **s: sparing.confident(log, tolerance=0.1, prior_scale=1.0, **s),
    "confident wider": lambda log, **s: sparing.confident(
        log, tolerance=0.1, prior_scale=1.0, explore="wider", misfit=0.1, **s
    ),
    "confident sampled": lambda log, **s: sparing.confident(
        log, tolerance=0.1, prior_scale=1.0, explore="sampled", **s
    ),
    "confident spot checks": lambda log, **s: sparing.confident(
        log, tolerance=0.1, prior_scale=1.0, spot_check=0.4, **s
    ),
    "economical": lambda log, **s: sparing.economical(
        log, call_cost=0.01, horizon=3000, prior_scale=1.0, **s
    ),
    "economical budget": lambda log, **s: sparing.economical(
        log, call_cost=0.0001, calls=150, discount=0.999, prior_scale=1.0, spot_check=0.2, misfit=0.1, **s
    ),
    "confident moving": lambda log, **s: sparing.confident(
        log, tolerance=0.1, prior_scale=1.0, shift=0.5, half_life=40, **s
    ),
    "economical moving": lambda log, **s: sparing.economical(
        log, call_cost=0.05, horizon=1000, prior_scale=1.0, shift="auto", half_life=60, **s
    ),
    "linucb": lambda log, **s: sparing.linucb(log, alpha=0.5, **s),
    "linucb forgetting": lambda log, **s: sparing.linucb(log, alpha=0.5, half_life=20, **s),
    "linucb cold": lambda log, **s: sparing.linucb(**_cold(log), **s),
    "lints": lambda log, **s: sparing.lints(log, **s),
    "lints cold": lambda log, **s: sparing.lints(scale=0.7, **_cold(log), **s),
}
"""Name → (log, **settings) → Learner."""


def build(name, log, **settings):
    """The named learner, with noise and bounds given."""
    return FACTORIES[name](log, **{**GIVEN, "seed": 3, **settings})
