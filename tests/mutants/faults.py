"""The faults: in which file, what stands there, and what is put in its place."""

from dataclasses import dataclass

KILLERS = (
    "online/test_rules.py",
    "online/test_agreement.py",
    "online/test_random_learners.py",
    "online/test_core.py",
    "online/test_engine.py",
    "online/test_log_beats.py",
    "online/test_log_limits.py",
    "online/test_sets.py",
    "online/test_monitor.py",
    "online/test_growing.py",
    "online/test_drift.py",
)
"""Tests from the mathematics and against the plain reference; no golden traces among them."""

AGREEMENT, RANDOM, CORE, ENGINE = KILLERS[1:5]
GROWING, MOVING = KILLERS[-2:]
ECONOMICAL = "online/test_economical.py"


@dataclass(frozen=True)
class Fault:
    """One change of the source; `first` are tests to try before the others, `equivalent` says why none can notice."""

    name: str
    file: str
    right: str
    wrong: str
    first: tuple[str, ...] = (AGREEMENT,)
    equivalent: str = ""


CHOOSING, SEARCH, DOUBTING = "engine/choice.py", "engine/search.py", "engine/choice.py"
FORESEEING, WORTH, RUNNING = (
    "engine/value_of_information.py",
    "engine/value_of_information.py",
    "engine/runs.py",
)
SAMPLING, LEARNING, OPENING = "engine/choice.py", "engine/updates.py", "engine/updates.py"

FAULTS = (
    # Every rule and every explorer, inverted or without a part of its condition.
    Fault(
        "supported: inverted",
        CHOOSING,
        "if rule == SUPPORTED and t.frozen[t.slot[leader]]:",
        "if rule == SUPPORTED and not t.frozen[t.slot[leader]]:",
    ),
    Fault("supported: never", CHOOSING, "if rule == SUPPORTED and t.frozen[t.slot[leader]]:", "if False:"),
    Fault("log-beats: inverted", CHOOSING, "top <= threshold", "top > threshold"),
    Fault("log-beats: strictly", CHOOSING, "top <= threshold", "top < threshold", first=(ENGINE,)),
    Fault(
        "log-beats: a limit against the answer itself",
        CHOOSING,
        "if t.tolerance > -math.inf and leader == logged:",
        "if False:",
        first=(ENGINE,),
    ),
    Fault(
        "log-beats: a limit against the ineligible",
        CHOOSING,
        "rival != action and (len(eligible) == 0 or eligible[rival])",
        "rival != action",
        first=(ENGINE,),
    ),
    Fault(
        "log-beats: a sample without the answer",
        CHOOSING,
        "if t.tolerance > -math.inf and leader == logged:",
        "if leader == logged:",
        first=(ENGINE,),
    ),
    Fault(
        "log-beats: the lowest limit",
        "log_beats.py",
        "(priority[log.actions], -lows, slot)",
        "(priority[log.actions], lows, slot)",
        first=("online/test_log_limits.py",),
    ),
    Fault(
        "log-beats: whether eligible or not",
        CHOOSING,
        "(len(eligible) == 0 or eligible[logged])",
        "True",
        first=("online/test_log_beats.py",),
    ),
    Fault(
        "log-beats: the leader's value",
        CHOOSING,
        "mean, spread = net_mean_and_spread(t, logged, x)",
        "mean, spread = net_mean_and_spread(t, leader, x)",
        first=(ENGINE,),
    ),
    Fault(
        "rules: in the other order",
        CHOOSING,
        "rule = t.first if turn == 0 else t.second",
        "rule = t.second if turn == 0 else t.first",
    ),
    Fault(
        "certified: inverted",
        CHOOSING,
        "rival_top - (mean - spread) <= t.tolerance",
        "rival_top - (mean - spread) > t.tolerance",
    ),
    Fault(
        "certified: by the mean",
        CHOOSING,
        "rival_top - (mean - spread) <= t.tolerance",
        "rival_top - mean <= t.tolerance",
    ),
    Fault(
        "certified: strictly",
        CHOOSING,
        "rival_top - (mean - spread) <= t.tolerance",
        "rival_top - (mean - spread) < t.tolerance",
        first=("online/test_rules.py",),
    ),
    Fault(
        "certified: −inf skips",
        CHOOSING,
        "if t.tolerance > -math.inf and (rival < 0 or",
        "if (rival < 0 or",
        first=("online/test_rules.py",),
    ),
    Fault(
        "certified: nobody else calls",
        CHOOSING,
        "(rival < 0 or rival_top",
        "(rival_top",
        equivalent="the top of a rival that is not there is −inf, below every leader",
    ),
    Fault("wider: narrower", CHOOSING, "rival_spread > spread", "rival_spread < spread"),
    Fault("wider: never", CHOOSING, "if t.explore == WIDER and rival >= 0 and", "if False and"),
    Fault(
        "confident: inverted",
        CHOOSING,
        "certain = all_beaten_probabilities(t, eligible, best, t.tolerance) <= t.limit",
        "certain = all_beaten_probabilities(t, eligible, best, t.tolerance) > t.limit",
    ),
    Fault(
        "confident: inverted with bounds",
        CHOOSING,
        "certain = beaten_probability_below(t, x, norm, eligible, best, mean, spread)",
        "certain = not beaten_probability_below(t, x, norm, eligible, best, mean, spread)",
        first=(ENGINE,),
    ),
    Fault(
        "confident: without tolerance",
        CHOOSING,
        "certain = all_beaten_probabilities(t, eligible, best, t.tolerance)",
        "certain = all_beaten_probabilities(t, eligible, best, 0.0)",
    ),
    Fault(
        "optimistic: by the mean",
        CHOOSING,
        "        return best, EXPLORE, 0.0, 0.0  # the caller samples\n    leader, _, mean, spread, _, _, _ = top_two(t, x, optimism_for(t, eligible), eligible, False, bounds)",
        "        return best, EXPLORE, 0.0, 0.0  # the caller samples\n    leader, _, mean, spread, _, _, _ = top_two(t, x, 0.0, eligible, False, bounds)",
    ),
    Fault(
        "optimistic: for all and not the eligible",
        CHOOSING,
        "return t.coefficient[many - 1]",
        "return t.optimism",
        first=(ENGINE,),
    ),
    Fault("strict: forgotten", DOUBTING, "return covariance_factor * math", "return math"),
    Fault(
        "added: δ as for the first",
        "confidence_sets.py",
        "np.where(self.added[actions] > 0, later, first)",
        "np.where(self.added[actions] < 0, later, first)",
        first=(GROWING,),
    ),
    Fault(
        "growing: all of δ for the first",
        "confidence_sets.py",
        "self.learnt * (2 if self.growing else 1)",
        "self.learnt",
        first=(GROWING,),
    ),
    Fault(
        "added: at the common mean",
        "action_changes.py",
        "prior.place(as_features(features, many))",
        "prior.place(prior.standard[0])",
        first=(GROWING,),
    ),
    Fault(
        "retired: played in compiled runs",
        "engine/runs.py",
        """active = t.active
    capacity""",
        """active = t.active[:0]
    capacity""",
        first=(GROWING,),
    ),
    Fault(
        "refresh: what the sets began with counts as rows",
        "confidence_sets.py",
        "return a.gram[slots, :width] - triangles, self.response - pulls",
        "return a.gram[slots, :width], self.response - pulls",
        first=(GROWING,),
    ),
    Fault(
        "refresh: Σr² of live rewards forgotten",
        OPENING,
        "t.squares[slot] += reward * reward",
        "t.squares[slot] += 0.0",
        first=(GROWING,),
    ),
    Fault(
        "centre: not weighed by the ridge",
        "confidence_sets.py",
        "response = ridge * (np",
        "response = 2 * ridge * (np",
    ),
    Fault(
        "wider-rival: narrower",
        CHOOSING,
        "return rival if rival >= 0 and width > spread else best",
        "return rival if rival >= 0 and width < spread else best",
    ),
    Fault(
        "wider-rival: the least likely",
        CHOOSING,
        "if beats(t, chance, action, highest, rival):",
        "if beats(t, -chance, action, highest, rival):",
    ),
    Fault(
        "sampled: one narrow draw",
        SAMPLING,
        "score = mean - cost_of(t, action[slot]) + spread * normals[action[slot]]",
        "score = mean - cost_of(t, action[slot]) + 0.5 * spread * normals[action[slot]]",
    ),
    Fault(
        "sampled: untouched never",
        SAMPLING,
        "if slots[a] == 0 and (len(eligible) == 0 or eligible[a]):",
        "if False:",
        first=(RANDOM,),
    ),
    Fault(
        "spot check: planned again elsewhere",
        CHOOSING,
        "if action == planned or (len(eligible) and not eligible[action]):\n            continue\n        odds",
        "if len(eligible) and not eligible[action]:\n            continue\n        odds",
        first=(RANDOM,),
    ),
    Fault(
        "spot check: without doubts",
        CHOOSING,
        """odds[action] = beaten_probability(
                mean - rival_mean + tolerance, difference_sd(t.covariance_factor, spread, rival_spread)
            )""",
        "odds[action] = 1.0",
        first=(RANDOM,),
    ),
    Fault(
        "spot check: always",
        "engine/random_stream.py",
        "if not uniform(key, CHECKED) < share:",
        "if uniform(key, CHECKED) < share:",
        first=(RANDOM,),
    ),
    Fault(
        "spot check: never elsewhere",
        "engine/random_stream.py",
        "return CHECK_OTHER if others and uniform(key, WHERE) < OTHER_ACTION_SHARE else CHECK_SAME",
        "return CHECK_SAME",
        first=(RANDOM,),
    ),
    Fault(
        "spot check: in the fast path",
        "engine/random_stream.py",
        "return np.int64(key) if uniform(key, CHECKED) < share else",
        "return np.int64(key) if not uniform(key, CHECKED) < share else",
        first=(RANDOM,),
    ),
    # The search: ties, the leader, the rival, what is passed over.
    Fault(
        "ties: to the later",
        SEARCH,
        "or (score == other and t.priority[action] < t.priority[rival])",
        "or (score == other and t.priority[action] > t.priority[rival])",
        first=(ENGINE,),
    ),
    Fault(
        "leader: ties to the later",
        SEARCH,
        "top == first_top and priority[mine] < priority[first]",
        "top == first_top and priority[mine] > priority[first]",
        first=(ENGINE,),
    ),
    Fault(
        "leader: untouched forgotten",
        SEARCH,
        "    if place < len(order):\n        first = order[place]",
        "    if False:\n        first = order[place]",
    ),
    Fault(
        "rival: the leader's shadow is lost",
        SEARCH,
        "second, second_top, second_spread = first, first_top, first_spread",
        "second, second_top, second_spread = second, second_top, second_spread",
    ),
    Fault(
        "bounds: too low by a half",
        SEARCH,
        "above = error * row32[d] + reach * row32[d + 1] + optimism * row32[d + 2]",
        "above = error * row32[d] + 0.5 * reach * row32[d + 1] + optimism * row32[d + 2]",
        first=(ENGINE,),
    ),
    Fault(
        "bounds: inverse32 form too small",
        SEARCH,
        "return gap > 0.0 and gap * gap > ABOVE * reach * reach * square",
        "return gap > 0.0 and gap * gap > 0.25 * reach * reach * square",
        first=(ENGINE,),
    ),
    Fault(
        "bounds: rounding of means forgotten",
        SEARCH,
        "    return without(middle + ABOVE * (error + TINY * norm) + 1e-9 * abs(middle), cost_of(t, t.action[slot]))",
        "    return middle - cost_of(t, t.action[slot])",
        first=(ENGINE,),
    ),
    Fault(
        "eligible: view_mask slots seen",
        SEARCH,
        "if view_mask[slot] & unseen or (len(eligible) and not eligible[action[slot]]):",
        "if len(eligible) and not eligible[action[slot]]:",
        first=(ENGINE,),
    ),
    Fault(
        "misfit: forgotten",
        SEARCH,
        "    return mean, math.sqrt(half * half + misfit * misfit) if misfit > 0.0 else half",
        "    return mean, half",
        first=(ENGINE,),
    ),
    Fault(
        "doubt: the other tail",
        DOUBTING,
        "return 0.5 * math.erfc(gap / (scale * math.sqrt(2.0)))",
        "return 0.5 * math.erfc(-gap / (scale * math.sqrt(2.0)))",
    ),
    Fault(
        "doubt: of points",
        DOUBTING,
        "return 1.0 if gap < 0.0 else 0.0",
        "return 0.0",
        first=("online/test_rules.py",),
    ),
    Fault(
        "doubts: untouched rivals forgotten",
        DOUBTING,
        "    return rivals * beaten_probability(",
        "    return 0.0 * beaten_probability(",
        first=(ENGINE,),
    ),
    Fault(
        "doubts: far rivals weigh too little",
        DOUBTING,
        "far = math.sqrt(-2.0 * math.log(2.0 * beyond))",
        "far = 0.3 * math.sqrt(-2.0 * math.log(2.0 * beyond))",
        first=(ENGINE,),
    ),
    # Learning and what is open.
    Fault(
        "row: half a reward", LEARNING, "response[i] += reward * x[i]", "response[i] += 0.5 * reward * x[i]"
    ),
    Fault(
        "row: θ̂ against the surprise", LEARNING, "theta[i] += residual * y[i]", "theta[i] -= residual * y[i]"
    ),
    Fault(
        "row: log det stands still",
        LEARNING,
        "t.log_det[slot] += math.log1p(square)",
        "t.log_det[slot] += 0.0",
    ),
    Fault(
        "row: the inverse grows",
        LEARNING,
        "add_both(gram, x, inverse, y, -1.0 / (1.0 + square))",
        "add_both(gram, x, inverse, y, 1.0 / (1.0 + square))",
    ),
    Fault(
        "row: never computed afresh",
        LEARNING,
        "if live % REFACTOR == 0 or not growth <= SHRINK:",
        "if False:",
        first=("online/test_exactness.py", "online/test_sets.py"),
    ),
    Fault(
        "radius: δ forgotten",
        LEARNING,
        "determinant(t.log_det[slot], t.noise, t.bias, t.log_delta[slot])",
        "determinant(t.log_det[slot], t.noise, t.bias, 0.0)",
    ),
    Fault(
        "condition: never refused",
        LEARNING,
        "return log_det if condition(trial, inverse, d) <= CONDITION else math.nan",
        "return log_det",
        first=("online/test_exactness.py",),
    ),
    Fault(
        "noise: never raised",
        LEARNING,
        "math.sqrt(mean_square) if mean_square > root * root * root else 1.0",
        "1.0",
        first=("online/test_monitor.py",),
    ),
    Fault(
        "noise: raised at once",
        LEARNING,
        "mean_square > root * root * root",
        "mean_square > 1.0",
        first=("online/test_monitor.py",),
    ),
    Fault(
        "open: counts nowhere",
        OPENING,
        "    t.waiting[slot] += 1\n    add_row(t, slot, x, predicted)",
        "    t.waiting[slot] += 1",
        first=(CORE,),
    ),
    Fault(
        "open: observed with its prediction",
        OPENING,
        "t.response[slot, i] += (reward - predicted) * x[i]",
        "t.response[slot, i] += 0.0 * x[i]",
        first=(CORE,),
    ),
    Fault(
        "open: taken back by halves",
        OPENING,
        "response[i] -= predicted * x[i]",
        "response[i] -= 0.5 * predicted * x[i]",
        first=(CORE,),
    ),
    Fault(
        "open: a twin too many",
        OPENING,
        "    t.view_mask[slot] = 3\n",
        "    t.view_mask[slot] = 2\n",
        first=(ENGINE, CORE),
    ),
    Fault(
        "digest: without order",
        OPENING,
        "digest = splitmix64(digest ^ word)",
        "digest = digest ^ word",
        first=(CORE,),
    ),
    # Around compiled code.
    Fault(
        "own rule: asked last",
        "core.py",
        "        if self._custom:\n            check_sizes(x)",
        "        if self._custom and False:\n            check_sizes(x)",
        first=("online/test_rules.py",),
    ),
    Fault(
        "pending: told as settled",
        "core.py",
        "            reason = reason if reason == EXPLORE else PENDING\n",
        "",
        first=(CORE, "fuzz/test_fuzz_steps.py"),
    ),
    Fault(
        "chances: of a spot check",
        "core.py",
        "kept if called else spot_check * (1 - apart)",
        "kept if called else spot_check",
        first=(RANDOM,),
    ),
    Fault(
        "view: the lowest leads",
        "rules.py",
        "highest = candidates[scores[candidates] == scores[candidates].max()]",
        "highest = candidates[scores[candidates] == scores[candidates].min()]",
        first=("online/test_rules.py",),
    ),
    Fault(
        "log-beats: the draw is uniform",
        "log_beats.py",
        "sums = np.cumsum(weights)",
        "sums = np.cumsum(np.ones(len(weights)))",
        first=("online/test_log_beats.py",),
    ),
    Fault(
        "confident: the confidence is the limit",
        "rules.py",
        '1 - setting("confidence", 1.0)',
        'setting("confidence", 1.0)',
    ),
    Fault(
        "fresh call: counted twice",
        "learner.py",
        "if call != self._deferred:\n                self._impute_deferred()\n            action",
        "self._impute_deferred()\n            action",
        first=(CORE, "online/test_contract.py"),
    ),
    # What a call is worth.
    *(
        Fault(f"worth: {name}", file, right, wrong, first=(ECONOMICAL, "online/test_worth_bounds.py"))
        for name, file, right, wrong in (
            ("the price forgotten", WORTH, "enough, new) - t.price - loss", "enough, new) - loss"),
            ("the loss forgotten", WORTH, "enough, new) - t.price - loss", "enough, new) - t.price"),
            ("one call ahead", WORTH, "MAX_LOOKAHEAD_CALLS = 128", "MAX_LOOKAHEAD_CALLS = 1"),
            (
                "calls of the past",
                WORTH,
                "(left - n + 1) * (total / m) / counted",
                "left * (total / m) / counted",
            ),
            ("its own rival", WORTH, "rival[j] if who[j] == slot else best[j]", "best[j]"),
            ("untried actions without rivals", FORESEEING, "if t.shared_ranked > 1 else", "if False else"),
            ("means stand still", FORESEEING, "t.voi_bound[slot] += more", "pass"),
            ("a gap that closes costs nothing", FORESEEING, "t.bound_base[slot] += more", "pass"),
            ("forms stand still", FORESEEING, "t.bound_floor[slot] += more", "pass"),
            (
                "one who falls behind stays",
                FORESEEING,
                "who[j] == slot and mine >= rival[j]",
                "who[j] == slot",
            ),
            ("a runner-up who falls stays", FORESEEING, "rival[j] <= mine <= best[j]", "mine <= best[j]"),
            (
                "noise that grows is not seen",
                FORESEEING,
                "t.unit * SIGMA_SLACK <= t.common <= t.unit",
                "t.unit > 0.0",
            ),
            ("fewer calls bounded too low", WORTH, "curved * slower) /", "curved) /"),
            ("slight contexts left out", WORTH, "form[i] = unit * rest * inverse[i]", "form[i] = 0.0"),
            (
                "a chord too low",
                WORTH,
                "slope[j] = most / (widest * widest)",
                "slope[j] = 0.1 * most / (widest * widest)",
            ),
            ("a tail forgotten", WORTH, " - gap * tail, 0.0)", ", 0.0)"),
            (
                "misfit forgotten",
                WORTH,
                "noise = t.common * t.common + t.misfit * t.misfit\n    n = 1",
                "noise = t.common * t.common\n    n = 1",
            ),
            (
                "retired actions count",
                FORESEEING,
                "(len(t.active) == 0 or t.active[t.action[slot]])",
                "True",
            ),
            (
                "never spent",
                CHOOSING,
                "if t.calls_left > 0 and t.rounds_left > 0.0:",
                "if t.rounds_left > 0.0:",
            ),
            (
                "time stands still",
                RUNNING,
                "t.rounds_to_come -= t.discount_per_round",
                "t.rounds_to_come -= 0.0",
            ),
        )
    ),
)

FAULTS += tuple(
    Fault(f"moving worlds: {name}", file, right, wrong, first=(MOVING,))
    for name, file, right, wrong in (
        ("fades to zero", "engine/forgetting.py", "rest * gram[i] + share * base[i]", "rest * gram[i]"),
        (
            "a response that stays",
            "engine/forgetting.py",
            "rest * t.response[slot, i] + share * response[i]",
            "t.response[slot, i]",
        ),
        (
            "twice the half-life",
            "engine/forgetting.py",
            "2.0 ** (-fades / FADES)",
            "2.0 ** (-fades / (2 * FADES))",
        ),
        (
            "live rows do not fade",
            "engine/forgetting.py",
            "t.live_gram[slot, i] *= rest",
            "t.live_gram[slot, i] *= 1.0",
        ),
        (
            "all actions at once",
            "engine/updates.py",
            "return int(uniform(action, 0) * t.half_life)",
            "return 0",
        ),
        (
            "a first row fades from the start",
            "engine/updates.py",
            "t.fades[slot] = fades_by(t, t.clock, offset)",
            "t.fades[slot] = 0",
        ),
        ("pending copies stay", "drift.py", "core.sets.rebuild_pending(", "(lambda *_, **__: None)("),
        (
            "half of a shift",
            "engine/forgetting.py",
            "scale * t.spread[i] * t.spread[i]",
            "0.5 * scale * t.spread[i] * t.spread[i]",
        ),
        (
            "a shift in other units",
            "engine/forgetting.py",
            "(shift / t.sigma) * (shift / t.sigma)",
            "shift * shift",
        ),
        ("no determinant", "engine/shift.py", "return 0.5 * (own - both), ", "return 0.0, "),
        (
            "the noise as known as can be",
            "engine/shift.py",
            "known = NOISE_ROWS *",
            "known = 1000.0 * NOISE_ROWS *",
        ),
        (
            "residuals around 0",
            "engine/updates.py",
            "residual = reward - dot(t.start_mean[slot], x)",
            "residual = reward",
        ),
        ("never-logged actions inform", "engine/shift.py", " and t.logged[slot] >= t.theta.shape[1]", ""),
        (
            "any evidence is certain",
            "drift.py",
            "a.shift_evidence >= CERTAIN and",
            "a.shift_evidence > 0 and",
        ),
        ("a shift that falls", "drift.py", "and size > a.shift", "and size != a.shift"),
        (
            "live rewards lost with the start",
            "engine/shift.py",
            "around[i] + t.live_response[slot, i]",
            "around[i]",
        ),
        (
            "the weight of the log stays",
            "engine/shift.py",
            "gram[i] = kept * gram[i] + (1.0 - kept) * base[i]",
            "gram[i] = gram[i]",
        ),
    )
)
