// Calls saved, reward against the holdout and spend; health checks, the gap map, and the last decisions.

import { niceTicks, stepOf, tickText, padded, scale } from "./charts.js";
import { NONE, byId, inWords, bytes, decimals, duration, el, fill, grouped, label, money, now, number, percent, place, plainly, plural, precision, signed, significant, time, write } from "./text.js";

const bold = (text) => el("b", null, text);

export function renderHeadline(overview) {
  renderSaved(overview);
  renderGain(overview.headline);
  renderSpend(overview.spend);
}

// Groups of decisions without a reward call, then of those with one: the first part of the bar is the saved share. Shadow calls are
// no decisions; those that were served with one have the reason `also`.
function parts(reasons) {
  const decided = reasons.filter((row) => row.arm !== "also");
  const counts = (asked) => decided.filter((row) => (row.asked || row.reason === "also") === asked).map((row) => [row.reason, row.decisions]);
  const free = grouped(counts(false)).map((group) => ({ ...group, name: group.name.replace(/^called: /, "no call: ") }));
  const paid = grouped(counts(true)).map((group) => (group.name.startsWith("called: ") ? group : { ...group, name: `called: ${group.name.replace(/^no call: /, "")}` }));
  return [...free, ...paid];
}

function renderSaved({ decisions, asked, skipped, saved, reasons, name }) {
  const shadow = reasons.filter((row) => row.arm === "also").reduce((sum, row) => sum + row.decisions, 0);
  byId("saved").className = `big ${decisions ? "accent" : "unmeasured"}`;
  write(byId("saved"), decisions ? percent(saved) : "no decision yet");
  const bar = byId("saved-bar");
  bar.classList.toggle("nothing", !decisions);
  if (!decisions) {
    fill(byId("saved-text"), "Request the first one with ", el("code", null, `POST /v1/${name}/decide`), ".");
    fill(byId("saved-legend"));
    bar.setAttribute("aria-label", "No decision yet");
    bar.replaceChildren();
    return;
  }
  fill(byId("saved-text"), bold(number(skipped)), ` of ${plural(decisions, "decision")} were answered without a reward call; `, bold(number(asked)), ` ${asked === 1 ? "call was" : "calls were"} made${shadow ? `, ${number(shadow)} of them in the shadow` : ""}.`);
  const groups = parts(reasons);
  bar.setAttribute("aria-label", groups.map((group) => `${group.name} ${number(group.decisions)}`).join(", "));
  if (bar.children.length !== groups.length) bar.replaceChildren(...groups.map(() => el("i")));
  groups.forEach((group, index) => {
    const piece = bar.children[index];
    piece.className = group.key;
    piece.title = `${group.name}: ${number(group.decisions)} (${group.reasons.join(", ")})`;
    place(piece, "--size", group.decisions / decisions);
  });
  fill(
    byId("saved-legend"),
    ...groups.map((group) =>
      el("span", { class: "key", title: group.reasons.join(", ") }, el("i", { class: `swatch ${group.key}` }), group.name, " ", bold(number(group.decisions))),
    ),
  );
}

function renderGain({ why, policy, holdout, difference, checks, sample_ratio: ratio, interval, level, assumes }) {
  const big = byId("gain");
  const half = difference && (difference.high - difference.low) / 2;
  const places = difference ? precision(half) : 3;
  const verdict = !difference ? "" : difference.low > 0 ? "better" : difference.high < 0 ? "worse" : "open";
  big.className = `big ${difference ? verdict : "unmeasured"}`;
  write(big, difference ? signed(difference.value, places) : "not measured");
  fill(byId("gain-drawn"), difference && drawn(difference, verdict));
  const words = {
    better: "higher than the holdout",
    worse: "lower than the holdout",
    open: "no significant difference yet",
  };
  const each = (measured) => [bold(significant(measured.value, 3)), ` ± ${number((measured.high - measured.low) / 2, decimals(measured.value, 3))}`];
  const mismatch = ratio && ratio.p < 0.001;
  fill(
    byId("gain-text"),
    difference && el("p", null, `${percent(level)} interval ${signed(difference.low, places)} to ${signed(difference.high, places)}: `, bold(words[verdict]), "."),
    why && el("p", null, why.charAt(0).toUpperCase() + why.slice(1), /[.!?]$/.test(why) ? "" : "."),
    policy && holdout && el("p", null, ...each(policy), " against ", ...each(holdout), " in the holdout", checks > 0 ? `; ${plural(checks, "check")} measured the skipped rounds.` : "."),
    policy && !holdout && el("p", null, "Mean reward of the policy: ", ...each(policy), " per decision."),
    !policy && holdout && el("p", null, "Mean reward of the holdout: ", ...each(holdout), " per decision."),
    (policy || holdout) && el("p", { class: "note" }, `Intervals hold at every look (${interval}). Assumed: ${assumes}.`),
    mismatch && el("p", { class: "alarm" }, `✕ The holdout has ${percent(ratio.seen)} of the traffic, but ${percent(ratio.asked)} is configured: do not trust this comparison.`),
  );
}

// The interval of the difference on a line that always shows zero.
function drawn({ value, low, high }, verdict) {
  const [from, to] = padded(Math.min(0, low), Math.max(0, high));
  const ticks = niceTicks(from, to, 4);
  const at = scale(from, to, 0, 1);
  const line = el("div", { class: `difference ${verdict}`, role: "img", "aria-label": "The interval of the difference, on a line with zero" });
  for (const tick of ticks) {
    const mark = el("span", { class: tick === 0 ? "at zero" : "at" }, tick > 0 ? "+" : "", tick === 0 ? "0" : tickText(tick, stepOf(ticks)));
    place(mark, "--at", at(tick));
    line.append(mark);
  }
  const band = el("span", { class: "band" });
  place(band, "--at", at(low));
  place(band, "--size", at(high) - at(low));
  const mean = el("span", { class: "mean" });
  place(mean, "--at", at(value));
  line.append(band, mean);
  return line;
}

const row = (name, ...value) => [el("dt", null, name), el("dd", null, ...value)];

function renderSpend(spend) {
  const priced = spend.price !== null && spend.spent !== null;
  const cost = (calls) => money(calls * spend.price, spend.unit);
  write(byId("spend-title"), priced ? `Cost of reward calls, at ${money(spend.price, spend.unit)} each` : "Reward calls made");
  write(byId("spent"), priced ? money(spend.spent, spend.unit) : number(spend.calls));
  fill(byId("spent-text"), priced ? [bold(money(spend.not_spent, spend.unit)), ` saved; ${plural(spend.calls, "reward call")} made`] : "No price per reward call is set.");
  const limited = spend.budget_calls !== null;
  const used = limited ? (spend.budget_calls > 0 ? spend.period_calls / spend.budget_calls : 1) : 0;
  fill(byId("budget"), limited && meter(spend, used));
  const gone = used >= 1;
  fill(
    byId("spend-list"),
    limited ? row("budget", priced ? `${cost(spend.budget_calls)} (${plural(spend.budget_calls, "call")})` : plural(spend.budget_calls, "call")) : row("budget", "none set"),
    limited && row("runs out", gone ? el("b", { class: "alarm" }, "used up") : spend.runs_out === null ? "not at the present rate" : time(spend.runs_out)),
    limited && spend.period_ends !== null && row("next period", time(spend.period_ends)),
    row("pending rewards", spend.most_open === null ? number(spend.open) : `${number(spend.open)} of at most ${number(spend.most_open)}`),
  );
}

function meter(spend, used) {
  const level = used >= 1 ? "alarm" : spend.runs_out !== null ? "warning" : "good";
  const inner = el("i", { class: level });
  place(inner, "--size", Math.min(1, used));
  const left = spend.period_ends === null ? "" : `, which ends in ${duration(Date.parse(spend.period_ends) / 1000 - now())}`;
  const text = `${percent(used)} of the period's budget is used${left}`;
  return [el("div", { class: "meter", role: "img", "aria-label": text, title: text }, inner), el("p", { class: "note" }, `${percent(used)} of this period's budget used`)];
}

const LEVELS = { alarm: ["✕", "alarm"], warning: ["!", "warning"], good: ["✓", "good"] };

export function renderLook({ look, health, rewarded, expired }) {
  const order = ["alarm", "warning", "good"];
  const sorted = [...look].sort((a, b) => order.indexOf(a.level) - order.indexOf(b.level));
  fill(
    byId("look"),
    sorted.length === 0 && el("li", { class: "good" }, "Nothing to report."),
    ...sorted.map(({ level, text }) => {
      const [sign, word] = LEVELS[level] ?? ["?", level];
      return el("li", { class: level }, el("span", { class: "level" }, `${sign} ${word}`), el("span", null, text));
    }),
  );
  fill(byId("health"), ...healthRows(health, rewarded, expired).map(([name, ...value]) => [el("dt", null, name), el("dd", null, ...value)]));
}

function healthRows(health, rewarded, expired) {
  const digest = el("span", { title: health.digest, class: "code" }, health.digest.slice(0, 8));
  return [
    ["model", `seq ${number(health.model_seq)} · `, digest],
    ["workers", agreement(health.workers)],
    ["decide, median / p99", health.decide_ms ? `${health.decide_ms.map((ms) => significant(ms, ms < 10 ? 1 : 2)).join(" / ")} ms` : NONE],
    ["rewards", `${number(rewarded)} received, ${number(expired)} expired`],
    ["store", `${health.store}, ${bytes(health.store_bytes)}`],
    ["last snapshot", ...(health.snapshot ? [`seq ${number(health.snapshot.seq)}, `, time(health.snapshot.time)] : ["none yet"])],
    ["last backup", health.last_backup ? time(health.last_backup) : "never"],
    ["started", time(health.started)],
  ];
}

// Equal seq must mean equal digest; a worker may lag, but never differ.
function agreement(workers) {
  if (workers.length === 0) return NONE;
  const digests = new Map();
  for (const { seq, digest } of workers) digests.set(seq, (digests.get(seq) ?? new Set()).add(digest));
  if ([...digests.values()].some((found) => found.size > 1)) {
    return el("b", { class: "alarm" }, `✕ of ${number(workers.length)} some disagree`);
  }
  const seqs = workers.map((worker) => worker.seq);
  const lag = Math.max(...seqs) - Math.min(...seqs);
  if (workers.length === 1) return "1";
  return lag === 0 ? `${number(workers.length)} agree` : `${number(workers.length)}, the last ${number(lag)} behind`;
}

const SHADES = 5;

export function renderGaps({ gaps, log_rows: logged }) {
  if (!gaps || gaps.rows.length === 0 || gaps.actions.length === 0) {
    fill(byId("gaps-legend"));
    fill(byId("gaps"), el("p", { class: "empty" }, logged === 0 ? "There is no log, so no segment is covered." : "No gaps were found in this log."));
    write(byId("gaps-note"), "");
    return;
  }
  const most = Math.max(1, ...gaps.rows.flatMap((row) => row.logged));
  fill(
    byId("gaps-legend"),
    el("span", { class: "key" }, el("i", { class: "swatch hatched" }), "never tried there in the log; the number is that of live calls"),
    el("span", { class: "key" }, "0", ...Array.from({ length: SHADES }, (_, n) => el("i", { class: `swatch shade-${n + 1}` })), plural(most, "row")),
  );
  const head = el("tr", null, el("td"), ...gaps.actions.map((action) => el("th", { scope: "col", title: label(action) }, el("bdi", null, label(action)))));
  fill(byId("gaps"), el("table", { class: "gap-table" }, el("thead", null, head), el("tbody", null, ...gaps.rows.map((row) => gapRow(row, gaps.actions, most)))));
  write(byId("gaps-note"), gaps.left_out > 0 ? `The ${plural(gaps.actions.length, "action")} with most gaps; ${number(gaps.left_out)} more are not shown.` : "");
}

function gapRow(row, actions, most) {
  const cells = actions.map((action, index) => {
    const [logged, live, never] = [row.logged[index], row.live[index], row.never[index]];
    const said = `${label(action)}, ${row.where}: ${never ? "never tried in the log" : plural(logged, "logged row")}, ${plural(live, "live call")} since`;
    if (never) return el("td", { class: "hatched", title: said }, el("span", null, live > 0 ? number(live) : NONE));
    const shade = logged === 0 ? 0 : Math.max(1, Math.ceil((SHADES * logged) / most));
    return el("td", { class: `shade-${shade}`, title: said }, number(logged));
  });
  return el("tr", null, el("th", { scope: "row", title: row.where }, el("bdi", null, row.where)), ...cells);
}

const SHOWN = 10;

export function renderRecent({ recent }) {
  if (recent.length === 0) {
    fill(byId("recent"), el("p", { class: "empty" }, "No decision yet."));
    return;
  }
  const column = (name, kind) => el("th", { scope: "col", class: kind }, name);
  const head = el("tr", null, column("when"), column("action"), column("reward"), column("received", "right"));
  const held = document.activeElement?.dataset?.decision;
  const table = el("table", { class: "recent-table" }, el("thead", null, head), el("tbody", null, ...recent.slice(0, SHOWN).map(recentRow)));
  fill(byId("recent"), table, el("p", { class: "note" }, "Select an action to see which columns its estimate comes from."));
  if (held && !document.activeElement?.dataset?.decision) byId("recent").querySelector(`button[data-decision="${CSS.escape(held)}"]`)?.focus();
}

function recentRow(row) {
  const name = label(row.action);
  const kind = row.arm === "also" ? "shadow-call" : row.needs_reward ? "called" : "free";
  const nobody = row.arm === "also" ? " (shown to nobody)" : "";
  return el(
    "tr",
    null,
    el("td", { class: "when" }, time(row.time)),
    el("td", { title: `${name}${nobody}: why?` }, el("button", { type: "button", class: "link", "data-decision": row.decision_id }, el("bdi", { class: "name" }, name))),
    el("td", { class: `why ${kind}`, title: `reason ${row.reason}, arm ${row.arm}` }, inWords(row.reason, row.needs_reward, row.arm)),
    el("td", { class: "right" }, received(row)),
  );
}

function received({ needs_reward: asked, reward, outcome }) {
  const value = reward === null ? "" : plainly(reward);
  if (outcome === "default" || outcome === "corrected") return el("span", null, value, " ", el("span", { class: "dim" }, outcome));
  if (value) return value;
  if (outcome) return el("span", { class: "dim" }, outcome);
  return asked ? el("span", { class: "dim" }, "pending") : NONE;
}
