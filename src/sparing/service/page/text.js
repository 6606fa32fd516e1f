// Numbers, times and reasons as text, and elements made of text. Server responses are never parsed as markup.

const SVG = "http://www.w3.org/2000/svg";

function dress(node, attributes, children) {
  for (const [name, value] of Object.entries(attributes ?? {})) {
    if (value === null || value === undefined || value === false) continue;
    node.setAttribute(name, value === true ? "" : value);
  }
  node.append(...children.flat().filter((child) => child !== null && child !== undefined && child !== false));
  return node;
}

export function el(tag, attributes, ...children) {
  return dress(document.createElement(tag), attributes, children);
}

export function svg(tag, attributes, ...children) {
  return dress(document.createElementNS(SVG, tag), attributes, children);
}

export const byId = (id) => document.getElementById(id);

// Replaces the children of a node only where they would differ, so that a refresh moves nothing under the pointer.
const shown = new WeakMap();

export function fill(node, ...children) {
  const fresh = el("div", null, ...children);
  if (shown.get(node) === fresh.innerHTML) return;
  shown.set(node, fresh.innerHTML);
  node.replaceChildren(...fresh.childNodes);
}

export function write(node, text) {
  if (node.textContent !== text) node.textContent = text;
}

// A place on a line, in percent, kept in a variable that the style sheet reads.
export function place(node, name, share) {
  node.style.setProperty(name, `${(100 * share).toFixed(2)}%`);
}

const THIN = "\u202f";
const MINUS = "\u2212";
export const NONE = "–";

const missing = (x) => x === null || x === undefined || !Number.isFinite(x);

const LARGE = 1e9;
const FINEST = 6;
const SUPERSCRIPTS = { "-": "⁻", 0: "⁰", 1: "¹", 2: "²", 3: "³", 4: "⁴", 5: "⁵", 6: "⁶", 7: "⁷", 8: "⁸", 9: "⁹" };

// A number of any size in a few characters, such as 1.23×10¹⁵.
function scientific(x, digits) {
  const [mantissa, power] = Math.abs(x).toExponential(Math.min(5, Math.max(0, digits))).split("e");
  const short = mantissa.includes(".") ? mantissa.replace(/\.?0+$/, "") : mantissa;
  return `${x < 0 ? MINUS : ""}${short}×10${[...power.replace("+", "")].map((sign) => SUPERSCRIPTS[sign]).join("")}`;
}

const magnitude = (x) => Math.floor(Math.log10(Math.abs(x)));

// At most six decimals, and no more than nine digits before them; others are written with a power of ten.
export function number(x, decimals = 0) {
  if (missing(x)) return NONE;
  if (Math.abs(x) >= LARGE) return scientific(x, decimals < 0 ? magnitude(x) + decimals : 2);
  if (decimals > FINEST) return Math.abs(x) < 0.5 * 10 ** -decimals ? "0" : scientific(x, magnitude(x) + decimals);
  const [whole, part] = Math.abs(x).toFixed(decimals).split(".");
  const grouped = whole.replace(/\B(?=(\d{3})+$)/g, THIN);
  const digits = part ? `${grouped}.${part}` : grouped;
  return x < 0 && /[1-9]/.test(digits) ? MINUS + digits : digits;
}

// Decimals that show `digits` significant digits of x: at most six, unless they would show nothing of it.
export function decimals(x, digits = 2) {
  if (missing(x)) return digits;
  if (x === 0) return 0;
  const wanted = Math.max(0, digits - 1 - magnitude(x));
  return Math.abs(x) < 10 ** -FINEST ? wanted : Math.min(FINEST, wanted);
}

// Decimals for an estimate of which half the interval is known: two digits of it if it begins with 1 or 2, else one.
export function precision(half) {
  const wanted = decimals(half, Number(Math.abs(half).toExponential()[0]) < 3 ? 2 : 1);
  return Math.abs(half) < 1e-4 ? wanted : Math.min(4, wanted);
}

export const significant = (x, digits = 3) => number(x, decimals(x, digits));

// A number as it was given, to four significant digits.
export const plainly = (x) => significant(x, Number.isInteger(x) ? 1 : Math.min(4, Number(x.toPrecision(4)).toExponential().split("e")[0].replace(/[-.]/g, "").length));

export const signed = (x, places) => (x > 0 && /[1-9]/.test(number(x, places)) ? "+" : "") + number(x, places);

// Shows 0 % and 100 % only for exact values.
export function percent(x) {
  if (missing(x)) return NONE;
  const points = 100 * x;
  if (points === 0 || points === 100) return `${points}${THIN}%`;
  if (points < 0.1) return `<${THIN}0.1${THIN}%`;
  if (points > 99.9) return `>${THIN}99.9${THIN}%`;
  return `${number(points, points < 10 || points > 99 ? 1 : 0)}${THIN}%`;
}

export function money(x, unit) {
  const places = Math.abs(x) >= 1000 || Number.isInteger(x) ? 0 : Math.max(2, decimals(x, 1));
  return unit ? `${number(x, places)}${THIN}${unit}` : number(x, places);
}

export function bytes(n) {
  const units = ["B", "kB", "MB", "GB", "TB"];
  let size = n;
  while (size >= 1000 && units.length > 1) {
    size /= 1000;
    units.shift();
  }
  return `${number(size, size < 10 && units[0] !== "B" ? 1 : 0)}${THIN}${units[0]}`;
}

export const plural = (n, one, many = `${one}s`) => `${number(n)} ${n === 1 ? one : many}`;

export function label(value) {
  return value === "" ? "(empty)" : String(value);
}

// The clock of the service: the browser's may differ.
let offset = 0;

export function setClock(iso) {
  const there = Date.parse(iso);
  if (Number.isFinite(there)) offset = there / 1000 - performance.now() / 1000;
}

export const now = () => offset + performance.now() / 1000;

export function duration(seconds) {
  const size = Math.abs(seconds);
  if (size < 60) return `${Math.floor(size)}${THIN}s`;
  if (size < 3600) return `${Math.floor(size / 60)}${THIN}min`;
  if (size < 48 * 3600) return `${Math.floor(size / 3600)}${THIN}h`;
  return `${number(Math.floor(size / 86400))}${THIN}d`;
}

export function relative(when) {
  const ago = now() - when;
  if (Math.abs(ago) < 1) return "now";
  return ago > 0 ? `${duration(ago)} ago` : `in ${duration(ago)}`;
}

const exactly = new Intl.DateTimeFormat("en-GB", { dateStyle: "medium", timeStyle: "long" });
const shortly = new Intl.DateTimeFormat("en-GB", { day: "numeric", month: "short", hour: "2-digit", minute: "2-digit" });

export const exact = (seconds) => exactly.format(seconds * 1000);
export const clock = (seconds) => shortly.format(seconds * 1000);

// A relative time on the page; `tick` updates it.
export function time(iso) {
  const when = Date.parse(iso) / 1000;
  if (!Number.isFinite(when)) return el("span", null, String(iso));
  const node = el("time", { datetime: iso, title: exact(when), "data-when": when });
  const text = document.createTextNode(relative(when));
  node.append(text);
  return node;
}

export function tick(root = document) {
  for (const node of root.querySelectorAll("time[data-when]")) {
    const text = relative(Number(node.dataset.when));
    if (node.textContent !== text) node.textContent = text;
  }
}

const WORDS = {
  explore: "explore",
  "spot-check": "spot check",
  uniform: "drawn at random",
  check: "check of a skip",
  holdout: "holdout",
  supported: "supported by the log",
  "log-beats": "the log's action is best",
  certified: "certified",
  confident: "confident",
  "not-worth-it": "not worth the cost",
  spent: "budget of reward calls used up",
  pending: "reward calls are pending",
  budget: "budget used up",
  fallback: "fallback served",
  also: "best mean, with a shadow call",
};
const WITHHELD = new Set(["spent", "budget", "pending", "fallback"]);

// A shadow call has the variant `also`, and the served decision beneath it the reason `also`.
export function inWords(reason, asked, arm) {
  const word = WORDS[reason] ?? reason;
  if (arm === "also") return `shadow call: ${word}`;
  if (reason === "also") return word;
  if (asked) return `needed: ${word}`;
  return `${WITHHELD.has(reason) ? "no call" : "not needed"}: ${word}`;
}

// At most seven groups of reasons, in stacking order: first those without a reward call.
const SERIES = [
  ["free", "no call: not needed", ["supported", "log-beats", "certified", "confident", "not-worth-it"]],
  ["pending", "no call: pending", ["pending"]],
  ["other", "", ["spent", "budget", "fallback"]],
  ["explore", "called: explore", ["explore", "spot-check", "uniform"]],
  ["shadow-call", "called: shadow call", ["also"]],
  ["check", "called: check", ["check"]],
  ["holdout", "called: holdout", ["holdout"]],
];
const HOME = new Map(SERIES.flatMap(([key, , reasons]) => reasons.map((reason) => [reason, key])));
const OTHERS = { spent: "budget", budget: "budget", fallback: "fallback" };

// Decisions by reason → the groups that occur, each with its name and the reasons in it.
export function grouped(counts) {
  const groups = new Map(SERIES.map(([key, name]) => [key, { key, name, decisions: 0, reasons: [] }]));
  for (const [reason, decisions] of counts) {
    const group = groups.get(HOME.get(reason) ?? "other");
    group.decisions += decisions;
    if (decisions > 0 && !group.reasons.includes(reason)) group.reasons.push(reason);
  }
  const kinds = new Set(groups.get("other").reasons.map((reason) => OTHERS[reason] ?? "other"));
  const other = [...kinds].sort().join(", ");
  groups.get("other").name = other === "budget" ? "no call: budget used up" : other;
  return [...groups.values()].filter((group) => group.decisions > 0);
}
