// Why a recent decision's action has its estimate: the part of each column, in a dialog. It is fetched when it is asked for.

import { Refused, ask } from "./access.js";
import { byId, el, fill, label, number, plainly, plural, signed, write } from "./text.js";

const SHOWN = 9;
const DIGITS = 4;

// Rounds the parts so that they sum to the rounded total: all down, then those that lose most up.
export function roundToSum(parts, total, places) {
  const unit = 10 ** places;
  const down = parts.map((part) => Math.floor(part * unit));
  const short = Math.round(total * unit) - down.reduce((sum, each) => sum + each, 0);
  const most = parts.map((part, index) => [down[index] - part * unit, index]).sort((a, b) => a[0] - b[0]);
  for (const [, index] of most.slice(0, Math.max(0, short))) down[index] += 1;
  return down.map((each) => each / unit);
}

// Opens the dialog on a click on a decision; `name` returns the experiment.
export function setUpExplanations(name) {
  byId("recent").addEventListener("click", async (event) => {
    const button = event.target.closest("button[data-decision]");
    if (!button) return;
    write(byId("why-title"), `Why ${button.textContent}?`);
    write(byId("why-text"), "Loading …");
    show([], [], "");
    byId("why").showModal();
    byId("why-close").focus();
    const id = button.dataset.decision;
    byId("why").dataset.decision = id;
    try {
      const record = await ask(`v1/${encodeURIComponent(name())}/decisions/${encodeURIComponent(id)}?explain=true`);
      if (byId("why").dataset.decision === id) explain(record);
    } catch (error) {
      if (byId("why").dataset.decision === id) write(byId("why-text"), error instanceof Refused ? error.message : "The service cannot be reached.");
    }
  });
}

function show(head, rows, note) {
  fill(byId("why-head"), head.length > 0 && el("tr", null, ...head.map((text, index) => el("th", { scope: "col", class: index > 0 && "right" }, text))));
  fill(byId("why-rows"), ...rows);
  write(byId("why-note"), note);
}

function explain({ value, model_seq: then, explanation: found }) {
  const { estimate, gap, base, base_gap: baseGap, contributions, against, rows, model_seq: now } = found;
  const largest = Math.max(...[estimate, base, ...contributions.map((one) => one.amount)].map(Math.abs));
  const places = largest > 0 ? Math.min(6, Math.max(0, DIGITS - 1 - Math.floor(Math.log10(largest)))) : 0;
  const left = contributions.slice(SHOWN);
  const total = (key) => left.reduce((sum, one) => sum + one[key], 0);
  const parts = (key, first) => [first, ...contributions.slice(0, SHOWN).map((one) => one[key]), ...(left.length ? [total(key)] : [])];
  const columns = [[roundToSum(parts("amount", base), estimate, places), estimate]];
  if (gap !== null) columns.push([roundToSum(parts("gap", baseGap), gap, places), gap]);
  const lines = [
    el("span", { class: "dim" }, rows ? `average of ${plural(rows, "row")}` : "all features 0"),
    ...contributions.slice(0, SHOWN).map(column),
    ...(left.length ? [el("span", { class: "dim" }, plural(left.length, "other column"))] : []),
  ];
  const cell = (x, sign) => el("td", { class: "right" }, sign ? signed(x, places) : number(x, places));
  const line = (title, numbers, plain, kind) =>
    el("tr", { class: kind }, el("th", { scope: "row" }, title), ...numbers.map((x, index) => cell(x, index > 0 || !plain)));
  const words = (index) => {
    const split = contributions[index - 1]?.words ?? [];
    if (index === 0 || index > SHOWN || split.length === 0) return [];
    const each = columns.map(([rounded], which) => roundToSum(split.map((one) => (which ? one.gap : one.amount)), rounded[index], places));
    return split.map((one, which) => line(one.word ? el("bdi", null, `“${one.word}”`) : "other words, less an average text", each.map((column) => column[which]), false, "word"));
  };
  const body = lines.flatMap((title, index) => [line(title, columns.map(([rounded]) => rounded[index]), index === 0, null), ...words(index)]);
  body.push(line("sum", columns.map(([, sum]) => sum), true, "sum"));
  const rival = gap === null ? "" : `, ${number(Math.abs(gap), places)} ${gap < 0 ? "below" : "above"} ${label(against)}`;
  const what = contributions.some((one) => one.kind === "cost") ? "Estimated reward less cost" : "Estimated reward";
  const changed = then === now || value === null ? "" : ` At the decision the estimate was ${number(value, places)}.`;
  write(byId("why-text"), `${what} ${number(estimate, places)}${rival}, with the model as of now.${changed}`);
  show(
    ["column", "estimate", ...(gap === null ? [] : [`gap to ${label(against)}`])],
    body,
    `What each column adds, compared with ${rows ? "the average row that the model has learnt from" : "0"}. The model is linear; these are not effects.`,
  );
}

function column({ column: name, value, note }) {
  const shown = typeof value === "number" ? plainly(value) : value === null ? null : label(value);
  return [el("bdi", null, name), shown !== null && [" = ", el("bdi", null, shown)], note && el("span", { class: "dim" }, ` (${note})`)].flat();
}
