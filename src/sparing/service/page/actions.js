// The table of actions: the most played and the never logged ones first; all of them, or a filter, on request.

import { niceTicks, stepOf, tickText, padded, scale } from "./charts.js";
import { NONE, byId, el, label, number, percent, place, plural, precision, write } from "./text.js";

const FIRST = 12;
const UNTRIED = 12;
const FEW = 24;
const SIGNS = { yes: "✓", partly: "◐", "never tried": "✕" };

const rows = new Map();
let actions = [];
let everything = false;
let axis = scale(0, 1, 0, 1);
let places = 2;
let level = "95 % interval";

const drawable = (action) => [action.value, action.low, action.high].every(Number.isFinite);
const nth = (sorted, share) => sorted[Math.min(sorted.length - 1, Math.floor(share * sorted.length))];

export function setUpActions() {
  byId("filter").addEventListener("input", refresh);
  byId("all").addEventListener("click", () => {
    everything = !everything;
    refresh();
  });
}

export function renderActions(overview) {
  actions = overview.actions
    .map((action, index) => ({ ...action, index, text: label(action.label) }))
    .sort((a, b) => b.share - a.share || b.decisions - a.decisions || b.value - a.value || a.index - b.index);
  level = overview.level === null ? "interval (no level is proved)" : `${percent(overview.level)} interval`;
  write(byId("level"), level);
  layOut();
  byId("main").classList.toggle("many", actions.length > FEW);
  byId("actions-tools").hidden = actions.length <= FEW;
  refresh();
}

// One scale for all rows. With many actions, the widest 1 % of intervals are cut off and marked.
function layOut() {
  const known = actions.filter(drawable);
  const lows = known.map((action) => action.low).sort((a, b) => a - b);
  const highs = known.map((action) => action.high).sort((a, b) => a - b);
  const [from, to] = known.length ? padded(nth(lows, 0.01), nth(highs, 0.99)) : [0, 1];
  const ticks = niceTicks(from, to, 4);
  const halves = known.map((action) => (action.high - action.low) / 2).sort((a, b) => a - b);
  places = precision(nth(halves, 0.3) || 1);
  axis = scale(from, to, 0, 1);
  const table = byId("actions");
  const zero = axis(0);
  table.classList.toggle("crosses", zero >= 0 && zero <= 1);
  place(table, "--zero", zero);
  byId("axis").replaceChildren(
    ...ticks.map((tick) => {
      const mark = el("span", { class: "at" }, tickText(tick, stepOf(ticks)));
      place(mark, "--at", axis(tick));
      return mark;
    }),
  );
}

function choose(wanted) {
  if (wanted) {
    return actions.filter((action) => action.text.toLowerCase().includes(wanted) || action.learnt.includes(wanted));
  }
  if (everything || actions.length <= FEW) return actions;
  const rest = actions.slice(FIRST).filter((action) => action.learnt === "never tried" && !action.retired);
  return [...actions.slice(0, FIRST), ...rest.slice(0, UNTRIED)];
}

function refresh() {
  const wanted = byId("filter").value.trim().toLowerCase();
  const chosen = choose(wanted);
  const body = byId("actions-rows");
  const nodes = chosen.map((action) => rowOf(action));
  const split = !wanted && !everything && actions.length > FEW && chosen.length > FIRST;
  nodes.forEach((node, index) => node.classList.toggle("cut", split && index === FIRST));
  if (nodes.length !== body.children.length || nodes.some((node, index) => body.children[index] !== node)) {
    body.replaceChildren(...nodes);
  }
  byId("actions-scroll").classList.toggle("long", chosen.length > FEW);
  const all = byId("all");
  all.setAttribute("aria-pressed", String(everything));
  write(all, everything ? "Show fewer" : `Show all ${number(actions.length)}`);
  write(byId("actions-note"), note(wanted, chosen));
}

function note(wanted, chosen) {
  const scaleNote = `Estimates are for the log's mean context, in units of the reward. Each has its ${level}; all are on one scale.`;
  if (actions.length === 0) return "There are no actions yet.";
  if (wanted) return `${plural(chosen.length, "action")} of ${number(actions.length)} match. ${scaleNote}`;
  if (chosen.length === actions.length) return scaleNote;
  const gone = actions.filter((action) => action.learnt === "never tried").length;
  const extra = chosen.length - FIRST;
  const second = extra > 0 ? `, then ${number(extra)} of the ${number(gone)} never tried in the log` : "";
  return `Shown of ${number(actions.length)}: the ${FIRST} most played${second}. ${scaleNote}`;
}

// A row is created once; only changed rows are rewritten.
function rowOf(action) {
  const name = JSON.stringify([action.label, action.index]);
  const seen = rows.get(name) ?? { node: null, said: "" };
  const said = JSON.stringify([action, axis(0), axis(1), places]);
  if (seen.said === said) return seen.node;
  seen.node ??= el("tr", { role: "row" });
  seen.said = said;
  rows.set(name, seen);
  seen.node.classList.toggle("retired", action.retired);
  seen.node.replaceChildren(...cells(action));
  return seen.node;
}

function cells(action) {
  const half = (action.high - action.low) / 2;
  const cell = (name, shown, text) => el("td", { role: "cell", class: `right ${name}`, "data-label": shown }, text);
  const kind = action.learnt.replace(" ", "-");
  return [
    el("th", { scope: "row", role: "rowheader", title: action.text }, el("bdi", { class: "name" }, action.text), action.retired && el("span", { class: "tag" }, "retired"), action.cost != null && el("span", { class: "tag" }, `cost ${number(action.cost, 3)}`)),
    cell("logged", "logged", number(action.logged)),
    cell("live", "live", number(action.live)),
    el("td", { role: "cell", class: "right learnt" }, el("span", { class: `badge ${kind}` }, `${SIGNS[action.learnt] ?? ""} ${action.learnt}`)),
    cell("share", "share", percent(action.share)),
    cell("estimate", "", drawable(action) ? `${number(action.value, places)} ± ${number(half, places)}` : NONE),
    el("td", { role: "cell", class: "interval" }, drawable(action) && interval(action)),
  ];
}

function interval({ value, low, high, learnt }) {
  const [left, right] = [Math.max(0, axis(low)), Math.min(1, axis(high))];
  const off = `${axis(low) < -1e-9 ? " off-left" : ""}${axis(high) > 1 + 1e-9 ? " off-right" : ""}`;
  const band = el("span", { class: `band${off}${learnt === "never tried" ? " untried" : ""}` });
  place(band, "--at", left);
  place(band, "--size", Math.max(0, right - left));
  const mean = el("span", { class: "mean" });
  place(mean, "--at", Math.min(1, Math.max(0, axis(value))));
  const said = `${number(low, places)} to ${number(high, places)}`;
  return el("span", { class: "track", role: "img", "aria-label": `from ${said}`, title: said }, band, mean);
}
