// What needs a look, health, the gap map, and the last decisions.

import { byId, el, fill, write } from "./dom.js";
import { NONE, bytes, inWords, label, number, plainly, plural, significant, time } from "./words.js";

const LEVELS = { alarm: ["✕", "alarm"], warning: ["!", "look"], good: ["✓", "well"] };

export function renderLook({ look, health, rewarded, expired }) {
  const order = ["alarm", "warning", "good"];
  const sorted = [...look].sort((a, b) => order.indexOf(a.level) - order.indexOf(b.level));
  fill(
    byId("look"),
    sorted.length === 0 && el("li", { class: "good" }, "Nothing to report."),
    ...sorted.map(({ level, text }) => {
      const [sign, word] = LEVELS[level] ?? ["?", level];
      return el("li", { class: level }, el("span", { class: "level" }, `${sign} ${word}`), el("span", { class: "told" }, text));
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
    ["rewards", `${number(rewarded)} came, ${number(expired)} expired`],
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
    fill(byId("gaps"), el("p", { class: "empty" }, logged === 0 ? "There is no log, so everything is a gap." : "No gaps by segment are known for this log."));
    write(byId("gaps-note"), "");
    return;
  }
  const most = Math.max(1, ...gaps.rows.flatMap((row) => row.logged));
  fill(
    byId("gaps-legend"),
    el("span", { class: "key" }, el("i", { class: "swatch hatched" }), "never tried there in the log; the number is live calls since"),
    el("span", { class: "key" }, "0", ...Array.from({ length: SHADES }, (_, n) => el("i", { class: `swatch shade-${n + 1}` })), `${number(most)} rows`),
  );
  const head = el("tr", null, el("td"), ...gaps.actions.map((action) => el("th", { scope: "col", title: label(action) }, el("bdi", null, label(action)))));
  fill(byId("gaps"), el("table", { class: "gap-table" }, el("thead", null, head), el("tbody", null, ...gaps.rows.map((row) => gapRow(row, gaps.actions, most)))));
  write(byId("gaps-note"), gaps.left_out > 0 ? `The ${plural(gaps.actions.length, "action")} with most gaps; ${number(gaps.left_out)} more with gaps are left out.` : "");
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
  fill(byId("recent"), el("table", { class: "recent-table" }, el("thead", null, head), el("tbody", null, ...recent.slice(0, SHOWN).map(recentRow))));
}

function recentRow(row) {
  const name = label(row.action);
  const kind = row.needs_reward ? "called" : "free";
  return el(
    "tr",
    null,
    el("td", { class: "when" }, time(row.time)),
    el("td", { title: name }, el("bdi", { class: "name" }, name)),
    el("td", { class: `why ${kind}`, title: `reason ${row.reason}, arm ${row.arm}` }, inWords(row.reason, row.needs_reward)),
    el("td", { class: "right" }, received(row)),
  );
}

function received({ needs_reward: asked, reward, outcome }) {
  const value = reward === null ? "" : plainly(reward);
  if (outcome === "default") return el("span", null, value, " ", el("span", { class: "dim" }, "default"));
  if (value) return value;
  if (outcome) return el("span", { class: "dim" }, outcome);
  return asked ? el("span", { class: "dim" }, "awaited") : NONE;
}
