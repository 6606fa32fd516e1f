"""The eight algorithms in plain NumPy, everything computed afresh from all rows in every round.

Written from the algorithms' definitions, sharing nothing with the package but the Log it reads. The
learner's priority order, and the random stream where one is used, are handed in.
"""

import math
from statistics import NormalDist

import numpy as np

from reference.kernels import best
from reference.log_beats import find, limits_and_answers, thresholds_and_answers

NORMAL = NormalDist()
FROM_LOG = ("warm_started", "certified", "confident", "linucb", "lints")


class Reference:
    """One learner: `decide` a round, and `learn` from its reward where one was asked for."""

    def __init__(
        self,
        algorithm,
        log,
        *,
        priority,
        luck=None,
        noise=1.0,
        theta_bound=1.0,
        context_bound=1.0,
        ridge=1.0,
        delta=0.05,
        radius="determinant",
        radius_scale=1.0,
        supported=(),
        inflate=0.0,
        clip=math.inf,
        answer="logged",
        beats="sample",
        tolerance=0.1,
        confidence=0.95,
        explore="leader",
        misfit=0.0,
        spread=None,
        flat=0.0,
        prior_mean=0.0,
        strict=False,
        center=0.0,
        alpha=1.0,
    ):
        self.algorithm, self.priority, self.luck, self.round = algorithm, priority, luck, -1
        self.n_actions, self.d = log.n_actions, log.n_features
        self.noise, self.theta_bound, self.context_bound = noise, theta_bound, context_bound
        self.ridge, self.delta, self.radius, self.radius_scale = ridge, delta, radius, radius_scale
        self.beats = beats
        self.inflate, self.alpha, self.answer = inflate, alpha, answer
        self.tolerance, self.confidence, self.explore, self.misfit = tolerance, confidence, explore, misfit
        self.rows = [[] for _ in range(self.n_actions)]
        if algorithm in FROM_LOG and algorithm != "confident":
            for x, a, r in zip(log.contexts, log.actions, log.rewards, strict=True):
                self.rows[a].append((x, r))
        self.points = {}
        if algorithm in ("eps_moful", "eps_moful_ips"):
            self.points = {
                a: theta if theta is not None else fitted(log, a) for a, theta in dict(supported).items()
            }
        self.memory = {}
        if algorithm == "eps_moful_ips" and beats == "sample":
            self.memory = thresholds_and_answers(log, clip, priority)
        centers = np.broadcast_to(center, (self.n_actions, self.d))
        self.start = {a: (ridge * np.eye(self.d), ridge * centers[a]) for a in range(self.n_actions)}
        if algorithm == "confident":
            self.start = posterior(log, noise, np.broadcast_to(spread, self.d), flat, prior_mean)
        self.caution = math.sqrt(2) if strict else 1.0
        self.surprises, self.estimates = [], {}
        if beats == "limit":
            self.delta = delta / 2
            known = {
                "noise": noise,
                "theta_bound": theta_bound,
                "context_bound": context_bound,
                "ridge": ridge,
            }
            known |= {"delta": delta / 2, "radius": radius, "radius_scale": radius_scale}
            warm = Reference("warm_started", log, priority=priority, **known)
            self.memory = limits_and_answers(log, warm.values, priority)

    def decide(self, x, eligible=None, context_id=None):
        """(action, needs_reward, reason) for context x; eligible (K,) booleans."""
        self.round += 1
        eligible = np.ones(self.n_actions, dtype=bool) if eligible is None else eligible
        centre, half = self.values(x)
        top = centre + self.optimism(int(eligible.sum())) * half
        leader = best(top, eligible, self.priority)
        if self.algorithm == "eps_moful_ips":
            known = find(self.memory, x, context_id if self.beats == "sample" else None)
            if known is not None:
                action = known[1] if self.answer == "logged" else only(known[2])
                others = eligible & ((self.beats == "sample") | (np.arange(self.n_actions) != action))
                if eligible[action] and top[others].max(initial=-math.inf) <= known[0]:
                    return action, False, "log-beats"
        if leader in self.points:
            return leader, False, "supported"
        if self.algorithm == "certified":
            return self.certified(centre, half, eligible, leader)
        if self.algorithm == "confident":
            return self.confident(centre, half, top, eligible, leader)
        if self.algorithm == "lints":
            draw = centre + half * self.luck.normals(self.round, self.n_actions)
            return best(draw, eligible, self.priority), True, "explore"
        return leader, True, "explore"

    def certified(self, centre, half, eligible, leader):
        """Skip where max_{b≠a*} U_b − L_{a*} ≤ τ; else play a*, or the wider of it and its closest rival."""
        rivals = [b for b in np.flatnonzero(eligible) if b != leader]
        upper = max((centre[b] + half[b] for b in rivals), default=-math.inf)
        if self.tolerance > -math.inf and upper - (centre[leader] - half[leader]) <= self.tolerance:
            return leader, False, "certified"
        if self.explore == "wider" and rivals:
            rival = best(centre + half, eligible, self.priority, leader)
            return (rival if half[rival] > half[leader] else leader), True, "explore"
        return leader, True, "explore"

    def confident(self, mean, deviation, top, eligible, leader):
        """Skip where Σ_{b≠a} Φ(−(m_a − m_b + τ)/sqrt(s_a² + s_b²)) ≤ 1 − c, a the best mean."""
        a = best(mean, eligible, self.priority)
        rivals = [b for b in np.flatnonzero(eligible) if b != a]
        if sum(self.doubt(mean, deviation, a, b, self.tolerance) for b in rivals) <= 1 - self.confidence:
            return a, False, "confident"
        if self.explore == "sampled":
            draw = mean + deviation * self.luck.normals(self.round, self.n_actions)
            return best(draw, eligible, self.priority), True, "explore"
        if self.explore == "wider":
            doubts = np.array([self.doubt(mean, deviation, a, b, 0.0) for b in range(self.n_actions)])
            rival = best(doubts, eligible, self.priority, a)
            return (rival if deviation[rival] > deviation[a] else a), True, "explore"
        return leader, True, "explore"

    def doubt(self, mean, deviation, a, b, tolerance):
        """P(b better than a by more than τ) where both are normal and independent (√2 times as apart, if strict)."""
        gap, scale = mean[a] - mean[b] + tolerance, self.caution * math.hypot(deviation[a], deviation[b])
        return NORMAL.cdf(-gap / scale) if scale > 0 else float(gap < 0)

    def learn(self, action, x, reward):
        """Take in the reward of a call."""
        if self.algorithm == "confident":
            theta, inverse, _ = self.estimate(action)
            variance = self.noise**2 * (1 + x @ inverse @ x) + self.misfit**2
            self.surprises.append((reward - x @ theta) ** 2 / variance)
        self.rows[action].append((np.array(x), reward))

    def estimate(self, action):
        """θ̂_a = V_a⁻¹b_a, V_a⁻¹ and log(det V_a/λ^d), from all of the action's rows, whenever there are new ones."""
        n = len(self.rows[action])
        if self.estimates.get(action, (None,))[0] != n:
            x, r = self.matrix(action), np.array([row[1] for row in self.rows[action]])
            matrix, pull = self.start[action]
            inverse = np.linalg.inv(matrix + x.T @ x)
            volume = -float(np.linalg.slogdet(self.ridge * inverse)[1])
            self.estimates[action] = n, inverse @ (x.T @ r + pull), inverse, volume
        return self.estimates[action][1:]

    def matrix(self, action):
        """The contexts in an action's set, (N_a, d)."""
        return np.array([row[0] for row in self.rows[action]]).reshape(-1, self.d)

    def values(self, x):
        """Centre and half-width of every action's set at x, (K,) each."""
        centre, half = np.empty(self.n_actions), np.empty(self.n_actions)
        for a in range(self.n_actions):
            if a in self.points:
                centre[a], half[a] = x @ self.points[a], self.inflate * self.context_bound
                continue
            theta, inverse, _ = self.estimate(a)
            centre[a] = x @ theta
            half[a] = math.hypot(self.rho(a) * math.sqrt(x @ inverse @ x), self.misfit)
        return centre, half

    def rho(self, action):
        """The radius ρ_a."""
        if self.algorithm == "linucb":
            return self.alpha
        if self.algorithm == "lints":
            return self.noise
        if self.algorithm == "confident":
            return self.noise * self.inflation()
        learnt = [a for a in range(self.n_actions) if a not in self.points]
        n, many = len(self.rows[action]), max(1, len(learnt))
        square = self.context_bound**2 / self.ridge
        if self.radius == "determinant":
            volume = self.estimate(action)[2] + 2 * math.log(many / self.delta)
        elif self.radius == "trace":
            volume = self.d * math.log(1 + n * square / self.d) + 2 * math.log(many / self.delta)
        else:
            total = sum(len(self.rows[a]) for a in learnt)
            volume = self.d * math.log(many * (1 + total * square) / self.delta)
        return self.radius_scale * (self.noise * math.sqrt(volume) + math.sqrt(self.ridge) * self.theta_bound)

    def optimism(self, eligible):
        """How many half-widths the top is above the centre: z for a posterior and so many eligible actions, 1 for a set."""
        if self.algorithm != "confident":
            return 1.0
        return max(2.0, NORMAL.inv_cdf(1 - (1 - self.confidence) / max(1, eligible - 1)))

    def inflation(self):
        """The factor on σ: sqrt of the mean surprise where that is beyond its 99.9 % limit (Wilson–Hilferty)."""
        n = len(self.surprises)
        surprise = float(np.mean(self.surprises)) if n else 1.0
        return (
            math.sqrt(surprise)
            if n and surprise > (1 - 2 / (9 * n) + 3.09 * math.sqrt(2 / (9 * n))) ** 3
            else 1.0
        )


def fitted(log, action):
    """Least squares on one action's rows, which must determine it."""
    rows = log.actions == action
    theta, _, rank, _ = np.linalg.lstsq(log.contexts[rows], log.rewards[rows])
    assert rank == log.n_features
    return theta


def posterior(log, noise, spread, flat, mean):
    """σ²·cov⁻¹ and σ²·cov⁻¹·mean of every action's parameters given the log, from the joint normal of all of them.

    θ_a = w + η_a: w ~ N(mean, flat²) is common, η_a ~ N(0, spread²) an action's own, by coordinates.
    """
    k, d = log.n_actions, log.n_features
    joint = np.kron(np.ones((k, k)), np.diag(np.broadcast_to(flat, d) ** 2)) + np.kron(
        np.eye(k), np.diag(spread**2)
    )
    rows = np.zeros((log.n_rows, k * d))
    for i, (x, a) in enumerate(zip(log.contexts, log.actions, strict=True)):
        rows[i, a * d : (a + 1) * d] = x
    before = np.tile(np.broadcast_to(mean, d), k)
    gain = np.linalg.solve(rows @ joint @ rows.T + noise**2 * np.eye(log.n_rows), rows @ joint).T
    after, left = before + gain @ (log.rewards - rows @ before), joint - gain @ rows @ joint
    found = {}
    for a in range(k):
        own = slice(a * d, (a + 1) * d)
        matrix = noise**2 * np.linalg.inv(left[own, own])
        found[a] = matrix, matrix @ after[own]
    return found


def only(policy):
    """The one action that carries all of a distribution."""
    action = int(np.argmax(policy))
    assert policy[action] > 1 - 1e-6, "the answer is random here"
    return action
