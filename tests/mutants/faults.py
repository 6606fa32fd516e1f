"""The faults: in which file, what stands there, and what is put in its place."""

from dataclasses import dataclass
from pathlib import Path

HOUSE = Path(__file__).parents[2]

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
    "online/test_exactness.py",
    "online/test_economical.py",
    "online/test_worth_bounds.py",
    "online/test_context_sample.py",
    "online/test_costs.py",
    "online/test_shadow.py",
    "online/test_alarms.py",
)
"""Tests from the mathematics and against the plain reference; no golden traces among them."""

DEFINITION = "online/test_economical.py::test_compiled_is_the_definition[none]"
SPOT_CHECKS = "online/test_random_learners.py::test_the_same_rounds_and_propensities[spot checks-False]"
OPTIMISM = "online/test_agreement.py::test_optimism[moful-0.15-determinant]"
CERTIFIED = "online/test_agreement.py::test_certified[leader-determinant]"
WIDER = "online/test_agreement.py::test_certified[wider-determinant]"
CONFIDENT = "online/test_agreement.py::test_confident[0.0-False-optimistic]"
POINTS = "online/test_agreement.py::test_points[0.0-determinant]"
KEPT = "online/test_worth_bounds.py::test_what_is_kept_holds_while_others_learn[]"
WEIGHTED = "online/test_drift.py::test_sets_are_those_of_all_rows_with_their_weights"
PRUNED = "online/test_engine.py::test_the_pruned_choice_is_the_full_one"


@dataclass(frozen=True)
class Fault:
    """One change of a file of `online`; `test` is tried before all others, `equivalent` says why none can notice."""

    name: str
    file: str
    right: str
    wrong: str
    test: str
    equivalent: str = ""

    @property
    def path(self) -> Path:
        """The file."""
        return HOUSE / "src" / "sparing" / "online" / self.file

    def text(self) -> str:
        """The file with the fault in it; what that replaces must be there exactly once."""
        text = self.path.read_text(encoding="utf-8")
        if text.count(self.right) != 1:
            raise ValueError(f"{self.name}: {self.right!r} is {text.count(self.right)} times in {self.file}")
        return text.replace(self.right, self.wrong)


CHOICE, SEARCH, UPDATES = "engine/choice.py", "engine/search.py", "engine/updates.py"
VALUE, RUNS, FORGETTING = "engine/value_of_information.py", "engine/runs.py", "engine/forgetting.py"
SHIFT, SAMPLE, DRIFT = "engine/shift.py", "engine/context_sample.py", "drift.py"

FAULTS = (
    # Every rule and every explorer, inverted or without a part of its condition.
    Fault(
        "supported: inverted",
        CHOICE,
        "if rule == SUPPORTED and t.frozen[t.slot[leader]]:",
        "if rule == SUPPORTED and not t.frozen[t.slot[leader]]:",
        test=POINTS,
    ),
    Fault(
        "supported: never",
        CHOICE,
        "if rule == SUPPORTED and t.frozen[t.slot[leader]]:",
        "if False:",
        test=POINTS,
    ),
    Fault(
        "log-beats: inverted",
        CHOICE,
        "top <= threshold",
        "top > threshold",
        test="online/test_agreement.py::test_log_beats_with_repeated_contexts[1.0-False]",
    ),
    Fault(
        "log-beats: strictly", CHOICE, "top <= threshold", "top < threshold", test=PRUNED + "[points-none]"
    ),
    Fault(
        "log-beats: a limit against the answer itself",
        CHOICE,
        "if t.tolerance > -math.inf and leader == logged:",
        "if False:",
        test=PRUNED + "[limits-none]",
    ),
    Fault(
        "log-beats: a limit against the ineligible",
        CHOICE,
        "rival != action and (len(eligible) == 0 or eligible[rival])",
        "rival != action",
        test=PRUNED + "[limits-none]",
    ),
    Fault(
        "log-beats: a sample without the answer",
        CHOICE,
        "if t.tolerance > -math.inf and leader == logged:",
        "if leader == logged:",
        test=PRUNED + "[points-none]",
    ),
    Fault(
        "log-beats: the lowest limit",
        "log_beats.py",
        "(priority[log.actions], -lows, slot)",
        "(priority[log.actions], lows, slot)",
        test="online/test_log_limits.py::test_rounds_are_those_of_the_plain_reference[determinant-everyone]",
    ),
    Fault(
        "log-beats: whether eligible or not",
        CHOICE,
        "(len(eligible) == 0 or eligible[logged])",
        "True",
        test="online/test_log_beats.py::test_a_logged_answer_that_is_not_eligible_is_not_given",
    ),
    Fault(
        "log-beats: the leader's value",
        CHOICE,
        "mean, spread = net_mean_and_spread(t, logged, x)",
        "mean, spread = net_mean_and_spread(t, leader, x)",
        test=PRUNED + "[points-none]",
    ),
    Fault(
        "rules: in the other order",
        CHOICE,
        "rule = t.first if turn == 0 else t.second",
        "rule = t.second if turn == 0 else t.first",
        test="online/test_agreement.py::test_log_beats_with_repeated_contexts[1.0-False]",
    ),
    Fault(
        "certified: inverted",
        CHOICE,
        "rival_top - (mean - spread) <= t.tolerance",
        "rival_top - (mean - spread) > t.tolerance",
        test=CERTIFIED,
    ),
    Fault(
        "certified: by the mean",
        CHOICE,
        "rival_top - (mean - spread) <= t.tolerance",
        "rival_top - mean <= t.tolerance",
        test=CERTIFIED,
    ),
    Fault(
        "certified: strictly",
        CHOICE,
        "rival_top - (mean - spread) <= t.tolerance",
        "rival_top - (mean - spread) < t.tolerance",
        test="online/test_rules.py::test_certified_skips_at_its_tolerance_and_not_below",
    ),
    Fault(
        "certified: −inf skips",
        CHOICE,
        "if t.tolerance > -math.inf and (rival < 0 or",
        "if (rival < 0 or",
        test="online/test_rules.py::test_certified_that_never_skips_asks_about_the_only_action_too",
    ),
    Fault(
        "certified: without a challenger it calls",
        CHOICE,
        "(rival < 0 or rival_top",
        "(rival_top",
        test=CERTIFIED,
        equivalent="the upper bound of a challenger that is not there is −∞, below every greedy action",
    ),
    Fault("wider: narrower", CHOICE, "rival_spread > spread", "rival_spread < spread", test=WIDER),
    Fault("wider: never", CHOICE, "if t.explore == WIDER and rival >= 0 and", "if False and", test=WIDER),
    Fault(
        "confident: inverted",
        CHOICE,
        "best, mean, spread) <= t.limit",
        "best, mean, spread) > t.limit",
        test=CONFIDENT,
    ),
    Fault(
        "confident: inverted with bounds",
        CHOICE,
        "certain = beaten_probability_below(",
        "certain = not beaten_probability_below(",
        test=PRUNED + "[confident-shared]",
    ),
    Fault(
        "confident: without tolerance",
        CHOICE,
        "mean - rival_mean + t.tolerance, width",
        "mean - rival_mean, width",
        test=CONFIDENT,
    ),
    Fault(
        "optimistic: by the mean",
        CHOICE,
        "optimism_for(t, eligible), eligible",
        "0.0, eligible",
        test=CONFIDENT,
    ),
    Fault(
        "optimistic: for all and not the eligible",
        CHOICE,
        "return t.coefficient[many - 1]",
        "return t.optimism",
        test=PRUNED + "[confident-none]",
    ),
    Fault(
        "strict: forgotten",
        CHOICE,
        "return covariance_factor * math",
        "return math",
        test="online/test_agreement.py::test_confident[0.0-True-optimistic]",
    ),
    Fault(
        "added: δ as for the first",
        "confidence_sets.py",
        "np.where(self.added[actions] > 0, later, first)",
        "np.where(self.added[actions] < 0, later, first)",
        test="online/test_growing.py::test_added_actions_have_their_own_share_of_delta[determinant]",
    ),
    Fault(
        "growing: all of δ for the first",
        "confidence_sets.py",
        "self.learnt * (2 if self.growing else 1)",
        "self.learnt",
        test="online/test_growing.py::test_added_actions_have_their_own_share_of_delta[determinant]",
    ),
    Fault(
        "added: at the common mean",
        "action_changes.py",
        "prior.place(as_features(features, many))",
        "prior.place(prior.standard[0])",
        test="online/test_growing.py::test_adding_an_action_is_having_had_it_untried_from_the_start[plain-confident items]",
    ),
    Fault(
        "retired: played in compiled runs",
        RUNS,
        """active = t.active
    capacity""",
        """active = t.active[:0]
    capacity""",
        test="online/test_growing.py::test_compiled_runs_know_what_came_and_went",
    ),
    Fault(
        "refresh: what the sets began with counts as rows",
        "confidence_sets.py",
        "return a.gram[slots, :width] - triangles, self.response - pulls",
        "return a.gram[slots, :width], self.response - pulls",
        test="online/test_growing.py::test_a_refresh_is_a_fit_to_all_rows[given0-confident]",
    ),
    Fault(
        "refresh: Σr² of live rewards left out",
        UPDATES,
        "t.squares[slot] += reward * reward",
        "t.squares[slot] += 0.0",
        test="online/test_growing.py::test_a_refresh_is_a_fit_to_all_rows[given0-confident]",
    ),
    Fault(
        "centre: weighed twice",
        "confidence_sets.py",
        "response = ridge * (np",
        "response = 2 * ridge * (np",
        test="online/test_agreement.py::test_certified_around_learnt_centres[common]",
    ),
    Fault(
        "wider-rival: narrower",
        CHOICE,
        "return rival if rival >= 0 and width > spread else best",
        "return rival if rival >= 0 and width < spread else best",
        test="online/test_agreement.py::test_confident[0.0-False-wider]",
    ),
    Fault(
        "wider-rival: the least likely",
        CHOICE,
        "if beats(t, chance, action, highest, rival):",
        "if beats(t, -chance, action, highest, rival):",
        test="online/test_agreement.py::test_confident[0.0-False-wider]",
    ),
    Fault(
        "sampled: one narrow draw",
        CHOICE,
        "score = mean - cost_of(t, action[slot]) + spread * normals[action[slot]]",
        "score = mean - cost_of(t, action[slot]) + 0.5 * spread * normals[action[slot]]",
        test="online/test_agreement.py::test_confident[0.0-False-sampled]",
    ),
    Fault(
        "sampled: untried never",
        CHOICE,
        "if slots[a] == 0 and (len(eligible) == 0 or eligible[a]):",
        "if False:",
        test="online/test_random_learners.py::test_the_same_rounds_and_propensities[sampled-False]",
    ),
    Fault(
        "spot check: planned again elsewhere",
        CHOICE,
        "if action == planned or (len(eligible) and not eligible[action]):\n            continue\n        odds",
        "if len(eligible) and not eligible[action]:\n            continue\n        odds",
        test=SPOT_CHECKS,
    ),
    Fault(
        "spot check: all actions alike",
        CHOICE,
        """odds[action] = beaten_probability(
                mean - rival_mean + tolerance, difference_sd(t.covariance_factor, spread, rival_spread)
            )""",
        "odds[action] = 1.0",
        test=SPOT_CHECKS,
    ),
    Fault(
        "spot check: always",
        "engine/random_stream.py",
        "if not uniform(key, CHECKED) < share:",
        "if uniform(key, CHECKED) < share:",
        test=SPOT_CHECKS,
    ),
    Fault(
        "spot check: never elsewhere",
        "engine/random_stream.py",
        "return CHECK_OTHER if others and uniform(key, WHERE) < OTHER_ACTION_SHARE else CHECK_SAME",
        "return CHECK_SAME",
        test=SPOT_CHECKS,
    ),
    Fault(
        "spot check: in the fast path",
        "engine/random_stream.py",
        "return np.int64(key) if uniform(key, CHECKED) < share else",
        "return np.int64(key) if not uniform(key, CHECKED) < share else",
        test=SPOT_CHECKS,
    ),
    # The search: ties, the leader, the rival, what is passed over.
    Fault(
        "ties: to the later",
        SEARCH,
        "or (score == other and t.priority[action] < t.priority[rival])",
        "or (score == other and t.priority[action] > t.priority[rival])",
        test=PRUNED + "[wider-none]",
    ),
    Fault(
        "leader: ties to the later",
        SEARCH,
        "top == first_top and priority[mine] < priority[first]",
        "top == first_top and priority[mine] > priority[first]",
        test=PRUNED + "[none-none]",
    ),
    Fault(
        "leader: untried forgotten",
        SEARCH,
        "    if place < len(order):\n        first = order[place]",
        "    if False:\n        first = order[place]",
        test=OPTIMISM,
    ),
    Fault(
        "rival: the previous leader is lost",
        SEARCH,
        "second, second_top, second_spread = first, first_top, first_spread",
        "second, second_top, second_spread = second, second_top, second_spread",
        test=CERTIFIED,
    ),
    Fault(
        "bounds: too low by a half",
        SEARCH,
        "above = error * row32[d] + reach * row32[d + 1] + optimism * row32[d + 2]",
        "above = error * row32[d] + 0.5 * reach * row32[d + 1] + optimism * row32[d + 2]",
        test=PRUNED + "[none-shared]",
    ),
    Fault(
        "bounds: inverse32 form too small",
        SEARCH,
        "return gap > 0.0 and gap * gap > ABOVE * reach * reach * square",
        "return gap > 0.0 and gap * gap > 0.25 * reach * reach * square",
        test=PRUNED + "[none-quick]",
    ),
    Fault(
        "bounds: rounding of means forgotten",
        SEARCH,
        "    return without(middle + ABOVE * (error + TINY * norm) + 1e-9 * abs(middle), cost_of(t, t.action[slot]))",
        "    return middle - cost_of(t, t.action[slot])",
        test="online/test_engine.py::test_the_best_mean_among_gaps_too_small_for_single_precision[shared]",
    ),
    Fault(
        "eligible: slots of the other view seen",
        SEARCH,
        "if view_mask[slot] & unseen or (len(eligible) and not eligible[action[slot]]):",
        "if len(eligible) and not eligible[action[slot]]:",
        test=PRUNED + "[none-none]",
    ),
    Fault(
        "misfit: forgotten",
        SEARCH,
        "    return mean, math.sqrt(half * half + misfit * misfit) if misfit > 0.0 else half",
        "    return mean, half",
        test="online/test_agreement.py::test_confident[0.15-False-wider]",
    ),
    Fault(
        "beaten: the other tail",
        CHOICE,
        "return 0.5 * math.erfc(gap / (scale * math.sqrt(2.0)))",
        "return 0.5 * math.erfc(-gap / (scale * math.sqrt(2.0)))",
        test=CONFIDENT,
    ),
    Fault(
        "beaten: of points",
        CHOICE,
        "return 1.0 if gap < 0.0 else 0.0",
        "return 0.0",
        test="online/test_rules.py::test_a_doubt_is_the_normal_tail_and_without_deviation_compares",
    ),
    Fault(
        "beaten: untried challengers forgotten",
        CHOICE,
        "    return rivals * beaten_probability(",
        "    return 0.0 * beaten_probability(",
        test=PRUNED + "[confident-quick]",
    ),
    Fault(
        "beaten: far challengers weigh too little",
        CHOICE,
        "far = math.sqrt(-2.0 * math.log(2.0 * beyond))",
        "far = 0.3 * math.sqrt(-2.0 * math.log(2.0 * beyond))",
        test=PRUNED + "[confident-quick]",
    ),
    # Updates and pending calls.
    Fault(
        "row: half a reward",
        UPDATES,
        "response[i] += reward * x[i]",
        "response[i] += 0.5 * reward * x[i]",
        test=OPTIMISM,
    ),
    Fault(
        "row: θ̂ against the residual",
        UPDATES,
        "theta[i] += residual * y[i]",
        "theta[i] -= residual * y[i]",
        test=OPTIMISM,
    ),
    Fault(
        "row: log det stands still",
        UPDATES,
        "t.log_det[slot] += math.log1p(square)",
        "t.log_det[slot] += 0.0",
        test=OPTIMISM,
    ),
    Fault(
        "row: the inverse grows",
        UPDATES,
        "add_both(gram, x, inverse, y, -1.0 / (1.0 + square))",
        "add_both(gram, x, inverse, y, 1.0 / (1.0 + square))",
        test=OPTIMISM,
    ),
    Fault(
        "row: never computed afresh",
        UPDATES,
        "if live % REFACTOR == 0 or not growth <= SHRINK:",
        "if False:",
        test="online/test_exactness.py::test_means_and_widths_are_exact_or_the_row_is_refused[1000000.0]",
    ),
    Fault(
        "radius: δ forgotten",
        UPDATES,
        "determinant(t.log_det[slot], t.noise, t.bias, t.log_delta[slot])",
        "determinant(t.log_det[slot], t.noise, t.bias, 0.0)",
        test=OPTIMISM,
    ),
    Fault(
        "condition: never refused",
        UPDATES,
        "return log_det if condition(trial, inverse, d) <= CONDITION else math.nan",
        "return log_det",
        test="online/test_exactness.py::test_means_and_widths_are_exact_or_the_row_is_refused[10000.0]",
    ),
    Fault(
        "noise: never raised",
        UPDATES,
        "math.sqrt(mean_square) if mean_square > root * root * root else 1.0",
        "1.0",
        test="online/test_monitor.py::test_inflation_comes_to_the_right_factor[2.0]",
    ),
    Fault(
        "noise: raised at once",
        UPDATES,
        "mean_square > root * root * root",
        "mean_square > 1.0",
        test="online/test_monitor.py::test_no_inflation_at_the_right_noise",
    ),
    Fault(
        "open: counts nowhere",
        UPDATES,
        "    t.waiting[slot] += 1\n    add_row(t, slot, x, predicted)",
        "    t.waiting[slot] += 1",
        test="online/test_core.py::test_an_open_call_counts_in_what_is_asked_next_and_not_in_what_is_known",
    ),
    Fault(
        "open: observed with its prediction",
        UPDATES,
        "t.response[slot, i] += (reward - predicted) * x[i]",
        "t.response[slot, i] += 0.0 * x[i]",
        test="online/test_core.py::test_what_is_open_counts_with_its_prediction_whatever_became_of_the_others",
    ),
    Fault(
        "open: taken back by halves",
        UPDATES,
        "response[i] -= predicted * x[i]",
        "response[i] -= 0.5 * predicted * x[i]",
        test="online/test_core.py::test_what_is_open_counts_with_its_prediction_whatever_became_of_the_others",
    ),
    Fault(
        "open: a copy too many",
        UPDATES,
        "    t.view_mask[slot] = 3\n",
        "    t.view_mask[slot] = 2\n",
        test=PRUNED + "[none-none]",
    ),
    Fault(
        "digest: without order",
        UPDATES,
        "digest = splitmix64(digest ^ word)",
        "digest = digest ^ word",
        test="online/test_core.py::test_the_digest_tells_the_order_of_rewards_of_different_actions",
    ),
    # Around compiled code.
    Fault(
        "own rule: after the others",
        "core.py",
        "        if self._custom:\n            check_sizes(x)",
        "        if self._custom and False:\n            check_sizes(x)",
        test="online/test_rules.py::test_a_rule_of_ones_own_is_asked_before_the_built_in_ones",
    ),
    Fault(
        "pending: called skipped",
        "core.py",
        "            reason = reason if reason == EXPLORE else PENDING\n",
        "",
        test="online/test_core.py::test_pending_is_said_where_only_open_calls_would_skip",
    ),
    Fault(
        "chances: of a spot check",
        "core.py",
        "kept if called else spot_check * (1 - apart)",
        "kept if called else spot_check",
        test=SPOT_CHECKS,
    ),
    Fault(
        "view: the lowest leads",
        "rules.py",
        "highest = candidates[scores[candidates] == scores[candidates].max()]",
        "highest = candidates[scores[candidates] == scores[candidates].min()]",
        test="online/test_rules.py::test_best_with_many_ties[2]",
    ),
    Fault(
        "log-beats: the draw is uniform",
        "log_beats.py",
        "sums = np.cumsum(weights)",
        "sums = np.cumsum(np.ones(len(weights)))",
        test="online/test_log_beats.py::test_answers_by_policy_have_the_frequencies_of_pi_plus[1.0]",
    ),
    Fault(
        "confident: the confidence is the limit",
        "rules.py",
        '1 - setting("confidence", 1.0)',
        'setting("confidence", 1.0)',
        test=CONFIDENT,
    ),
    Fault(
        "deferred call: left out once another is observed",
        "learner.py",
        "if call != self._deferred:",
        "if False:",
        test="online/test_core.py::test_the_newest_call_counts_as_pending_once_another_reward_has_come",
    ),
    # What a call is worth.
    *(
        Fault(f"worth: {name}", file, right, wrong, test=test)
        for name, file, right, wrong, test in (
            (
                "the price forgotten",
                VALUE,
                "enough, new) - t.price - loss",
                "enough, new) - loss",
                DEFINITION,
            ),
            (
                "the loss forgotten",
                VALUE,
                "enough, new) - t.price - loss",
                "enough, new) - t.price",
                DEFINITION,
            ),
            ("one call ahead", VALUE, "MAX_LOOKAHEAD_CALLS = 128", "MAX_LOOKAHEAD_CALLS = 1", DEFINITION),
            (
                "calls of the past",
                VALUE,
                "(left - n + 1) * (total / m) / counted",
                "left * (total / m) / counted",
                DEFINITION,
            ),
            ("its own rival", VALUE, "rival[j] if who[j] == slot else best[j]", "best[j]", DEFINITION),
            (
                "untried actions without rivals",
                VALUE,
                "if t.shared_ranked > 1 else",
                "if False else",
                DEFINITION,
            ),
            ("means stand still", VALUE, "t.voi_bound[slot] += more", "pass", DEFINITION),
            ("a gap that closes costs nothing", VALUE, "t.bound_base[slot] += more", "pass", KEPT),
            ("forms stand still", VALUE, "t.bound_floor[slot] += more", "pass", KEPT),
            (
                "one who falls behind stays",
                VALUE,
                "who[j] == slot and mine >= rival[j]",
                "who[j] == slot",
                DEFINITION,
            ),
            (
                "a runner-up who falls stays",
                VALUE,
                "rival[j] <= mine <= best[j]",
                "mine <= best[j]",
                DEFINITION,
            ),
            (
                "noise that grows is not seen",
                VALUE,
                "t.unit * SIGMA_SLACK <= t.common <= t.unit",
                "t.unit > 0.0",
                DEFINITION,
            ),
            ("fewer calls bounded too low", VALUE, "curved * slower) /", "curved) /", DEFINITION),
            ("slight contexts left out", VALUE, "form[i] = unit * rest * inverse[i]", "form[i] = 0.0", KEPT),
            (
                "a chord too low",
                VALUE,
                "slope[j] = most / (widest * widest)",
                "slope[j] = 0.1 * most / (widest * widest)",
                DEFINITION,
            ),
            ("a tail forgotten", VALUE, " - gap * tail, 0.0)", ", 0.0)", DEFINITION),
            (
                "misfit forgotten",
                VALUE,
                "noise = t.common * t.common + t.misfit * t.misfit\n    n = 1",
                "noise = t.common * t.common\n    n = 1",
                DEFINITION,
            ),
            (
                "retired actions count",
                VALUE,
                "(len(t.active) == 0 or t.active[t.action[slot]])",
                "True",
                KEPT,
            ),
            (
                "never spent",
                CHOICE,
                "if t.calls_left > 0 and t.rounds_left > 0.0:",
                "if t.rounds_left > 0.0:",
                "online/test_economical.py::test_where_nothing_can_repay_itself_nothing_is_asked[no budget]",
            ),
            (
                "time stands still",
                RUNS,
                "t.rounds_to_come -= t.discount_per_round",
                "t.rounds_to_come -= 0.0",
                "online/test_economical.py::test_the_fused_run_is_the_run_step_by_step",
            ),
        )
    ),
)

FAULTS += tuple(
    Fault(f"moving worlds: {name}", file, right, wrong, test=test)
    for name, file, right, wrong, test in (
        (
            "fades to zero",
            FORGETTING,
            "rest * gram[i] + share * base[i]",
            "rest * gram[i]",
            WEIGHTED + "[None-90-economical]",
        ),
        (
            "a response that stays",
            FORGETTING,
            "rest * t.response[slot, i] + share * response[i]",
            "t.response[slot, i]",
            WEIGHTED + "[None-90-economical]",
        ),
        (
            "twice the half-life",
            FORGETTING,
            "2.0 ** (-fades / FADES)",
            "2.0 ** (-fades / (2 * FADES))",
            WEIGHTED + "[None-90-economical]",
        ),
        (
            "live rows do not fade",
            FORGETTING,
            "t.live_gram[slot, i] *= rest",
            "t.live_gram[slot, i] *= 1.0",
            WEIGHTED + "[auto-90-economical]",
        ),
        (
            "all actions at once",
            UPDATES,
            "return int(uniform(action, 0) * t.half_life)",
            "return 0",
            WEIGHTED + "[None-90-economical]",
        ),
        (
            "a first row fades from the start",
            UPDATES,
            "t.fades[slot] = fades_by(t, t.clock, offset)",
            "t.fades[slot] = 0",
            WEIGHTED + "[1.5-33-economical]",
        ),
        (
            "pending copies stay",
            DRIFT,
            "core.sets.rebuild_pending(",
            "(lambda *_, **__: None)(",
            "online/test_drift.py::test_pending_calls_do_not_fade",
        ),
        (
            "half of a shift",
            FORGETTING,
            "scale * t.spread[i] * t.spread[i]",
            "0.5 * scale * t.spread[i] * t.spread[i]",
            WEIGHTED + "[auto-None-economical]",
        ),
        (
            "a shift in other units",
            FORGETTING,
            "(shift / t.sigma) * (shift / t.sigma)",
            "shift * shift",
            WEIGHTED + "[auto-None-economical]",
        ),
        (
            "no determinant",
            SHIFT,
            "return 0.5 * (own - both), ",
            "return 0.0, ",
            WEIGHTED + "[auto-None-economical]",
        ),
        (
            "the noise as known as can be",
            SHIFT,
            "known = NOISE_ROWS *",
            "known = 1000.0 * NOISE_ROWS *",
            WEIGHTED + "[auto-None-economical]",
        ),
        (
            "residuals around 0",
            UPDATES,
            "residual = reward - dot(t.start_mean[slot], x)",
            "residual = reward",
            WEIGHTED + "[auto-None-economical]",
        ),
        (
            "never-logged actions inform",
            SHIFT,
            " and t.logged[slot] >= t.theta.shape[1]",
            "",
            WEIGHTED + "[auto-None-economical]",
        ),
        (
            "any evidence is certain",
            DRIFT,
            "a.shift_evidence >= CERTAIN and",
            "a.shift_evidence > 0 and",
            WEIGHTED + "[auto-None-economical]",
        ),
        (
            "a shift that falls",
            DRIFT,
            "and size > a.shift",
            "and size != a.shift",
            "online/test_drift.py::test_a_shift_that_was_found_never_becomes_smaller",
        ),
        (
            "live rewards lost with the start",
            SHIFT,
            "around[i] + t.live_response[slot, i]",
            "around[i]",
            WEIGHTED + "[auto-None-economical]",
        ),
        (
            "the weight of the log stays",
            SHIFT,
            "gram[i] = kept * gram[i] + (1.0 - kept) * base[i]",
            "gram[i] = gram[i]",
            WEIGHTED + "[auto-90-economical]",
        ),
    )
)

COSTS = "online/test_costs.py::test_compiled_code_is_the_reference"
IN_SHADOW = "online/test_shadow.py::test_the_call_is_worth_its_gain_without_the_loss[none]"
CALLS_IN_SHADOW = (
    "online/test_shadow.py::test_every_learner_serves_the_best_mean_and_calls_where_it_would_call[certified]"
)
REQUESTED = "online/test_drift.py::test_rewards_are_requested_first_and_whenever_the_rounds_have_quadrupled"
FORGOTTEN = "online/test_drift.py::test_forgotten_sets_tend_to_the_prior"
SAMPLED = "online/test_context_sample.py::test_the_sample_is_that_of_plain_python[300]"
RESIDUALS = "online/test_alarms.py::test_residuals_are_in_deviations_of_the_reward_around_its_prediction"
CAPITAL = "online/test_alarms.py::test_the_capital_is_that_of_bets_that_begin_at_every_block"

FAULTS += (
    Fault(
        "costs: not in bounds",
        SEARCH,
        "top = without(top, cost[action[slot]])",
        "pass",
        test=COSTS + "[moful]",
    ),
    Fault(
        "costs: the second untried action has the first one's",
        SEARCH,
        "second_top = shared - cost_of(t, second)",
        "second_top = shared - cost_of(t, first)",
        test="online/test_costs.py::test_an_untried_action_is_certified_against_the_next_one_at_its_own_cost",
    ),
    Fault(
        "costs: none in rounds to come",
        VALUE,
        "-= t.future_cost[t.action[slot]]",
        "-= 0.0",
        test=IN_SHADOW,
    ),
    Fault(
        "costs: not in the loss",
        CHOICE,
        "(dot(t.theta[slot], x) - cost_of(t, action))",
        "dot(t.theta[slot], x)",
        test=COSTS + "[economical]",
    ),
    Fault(
        "costs: not in what own rules see",
        "core.py",
        "else mean - known\n            eligible",
        "else mean\n            eligible",
        test="online/test_rules.py::test_a_rule_of_ones_own_sees_means_less_costs",
    ),
    Fault("shadow: the loss counts", CHOICE, "0.0 if shadow else max(", "max(", test=IN_SHADOW),
    Fault(
        "shadow: the served action is called",
        "learner.py",
        "self._open(~number, made[1][0], context",
        "self._open(~number, made[0][0], context",
        test=CALLS_IN_SHADOW,
    ),
    Fault(
        "shadow: the highest UCB is served",
        CHOICE,
        "best, _ = best_mean(t, x, scan_mean_bounds(t, x, eligible, bounds), eligible)\n    mean",
        "best, _, _, _, _, _, _ = top_two(t, x, 1.0, eligible, False, bounds)\n    mean",
        test=CALLS_IN_SHADOW,
    ),
    Fault(
        "moving worlds: residuals do not fade",
        FORGETTING,
        "t.residual_sum *= rest",
        "t.residual_sum *= 1.0",
        test=FORGOTTEN,
    ),
    Fault(
        "moving worlds: faded rows count",
        FORGETTING,
        "t.faded_rows[slot] += share *",
        "t.faded_rows[slot] += 0.0 *",
        test=FORGOTTEN,
    ),
    Fault(
        "moving worlds: evidence is a sum",
        SHIFT,
        "math.log(total / len(SHIFTS))",
        "math.log(total)",
        test=WEIGHTED + "[auto-None-economical]",
    ),
    Fault(
        "moving worlds: the noise monitor keeps a shift",
        SHIFT,
        "t.calls, t.residual_sum, t.faded_calls, t.common = 0, 0.0, 0.0, t.sigma",
        "pass",
        test=WEIGHTED + "[auto-None-economical]",
    ),
    Fault(
        "moving worlds: nothing is requested later",
        DRIFT,
        "wanted = 1 if rounds >=",
        "wanted = 0 if rounds >=",
        test=REQUESTED,
    ),
    Fault(
        "moving worlds: a few skewed rewards are enough",
        DRIFT,
        "core.sets.live_rewards >= a.review_rows",
        "True",
        test="online/test_drift.py::test_rewards_of_0_and_1_are_no_shift_before_enough_of_them_have_come",
    ),
    Fault(
        "moving worlds: a call is worth the same for ever",
        "core.py",
        "left[0] = min(to_come[0], kept[0])",
        "left[0] = to_come[0]",
        test="online/test_drift.py::test_a_reward_that_is_forgotten_is_worth_what_it_gains_until_then",
    ),
    Fault(
        "context sample: the log counts ever less",
        SAMPLE,
        "max(LOG_ROUNDS + number - t.sampled_from, 1)",
        "LOG_ROUNDS",
        test=SAMPLED,
    ),
    Fault(
        "context sample: renewed when all may be new",
        SAMPLE,
        "if RENEWALS * t.entered >=",
        "if t.entered >=",
        test=SAMPLED,
    ),
    Fault(
        "context sample: contexts however long",
        SAMPLE,
        "dot(t.next_sample[j], t.next_sample[j]) <= longest",
        "True",
        test=SAMPLED,
    ),
    Fault(
        "context sample: another mixture changes nothing",
        SAMPLE,
        "(everything or t.move[j] > reach)",
        "t.move[j] > reach",
        test="online/test_context_sample.py::test_another_mixture_is_met_by_a_learner_as_in_plain_python",
    ),
    *(
        Fault(f"alarms: {name}", "alarms.py", right, wrong, test=test)
        for name, right, wrong, test in (
            (
                "each beginning has all of the capital",
                "-FADING * math.log(row[BLOCKS]) - LOG",
                "-LOG",
                CAPITAL,
            ),
            (
                "no tolerance",
                "total = (side * row[SUM] - BLOCK * tolerance)",
                "total = side * row[SUM]",
                CAPITAL,
            ),
            (
                "as if there were one bet",
                "math.log(len(rows) * N_BETS / LEVEL)",
                "math.log(1 / LEVEL)",
                "online/test_alarms.py::test_an_alarm_is_raised_when_a_capital_reaches_the_number_of_bets_over_the_level",
            ),
            (
                "dated by the first block",
                "        if weight >= largest:",
                "        if row[BLOCKS] == 1:",
                "online/test_alarms.py::test_a_change_is_found_and_dated",
            ),
            ("predictions less cost", "[cost or 0.0 for", "[0.0 for", RESIDUALS),
            ("half an interval is a deviation", "(half / self.unit) ** 2", "half**2", RESIDUALS),
            (
                "ends of the range as noisy as others",
                "== high), ends, variance)",
                "== high), variance, variance)",
                RESIDUALS,
            ),
            (
                "nothing of all actions together",
                "for row in (actions[i], last):",
                "for row in (actions[i],):",
                RESIDUALS,
            ),
        )
    ),
)
