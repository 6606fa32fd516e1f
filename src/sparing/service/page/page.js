// Fetches the overview every five seconds and draws it. If a refresh fails, the page is greyed.

import { Refused, setUpKeyForm, setUpModes, showKeyForm, ask } from "./access.js";
import { renderActions, setUpActions } from "./actions.js";
import { Bands, Stacked, stepName } from "./charts.js";
import { setUpExplanations } from "./explanation.js";
import { renderGaps, renderHeadline, renderLook, renderRecent } from "./panels.js";
import { byId, setClock, duration, el, exact, fill, number, plural, tick, write } from "./text.js";

const EVERY = 5_000;
const LIST_EVERY = 60_000;
const FORMATS = [
  ["parquet", "Parquet"],
  ["csv", "CSV"],
  ["arrow", "Arrow"],
];
const MODES = { live: ["live", "good"], shadow: ["shadow (fallback served)", "warning"], fallback: ["stopped (fallback served)", "alarm"], paused: ["paused", "alarm"] };

const stacked = new Stacked(byId("stacked"));
const bands = new Bands(byId("bands"));
const state = { names: [], listed: -Infinity, name: null, overview: null, fetched: null, failed: null, turn: 0 };
let timer = null;

const since = (moment) => (performance.now() - moment) / 1000;
const fromHash = () => {
  try {
    return decodeURIComponent(location.hash.slice(1));
  } catch {
    return "";
  }
};

async function list() {
  if (state.names.length && performance.now() - state.listed < LIST_EVERY) return;
  const { experiments } = await ask("v1/experiments");
  state.names = experiments.map((experiment) => experiment.name);
  state.listed = performance.now();
}

async function refresh() {
  clearTimeout(timer);
  const turn = ++state.turn;
  try {
    await list();
    const name = fromHash() || state.names[0];
    if (name === undefined) {
      plain("No experiment yet", "This service has no experiment. Create one with POST /v1/experiments.");
    } else {
      const overview = await ask(`v1/${encodeURIComponent(name)}/summary`);
      if (turn !== state.turn) return;
      arrived(name, overview);
    }
  } catch (error) {
    if (turn !== state.turn || !failed(error)) return;
  }
  timer = setTimeout(refresh, document.hidden ? 6 * EVERY : EVERY);
}

function arrived(name, overview) {
  Object.assign(state, { name, overview, fetched: performance.now(), failed: null });
  setClock(overview.time);
  showKeyForm(false);
  byId("plain").hidden = true;
  byId("trouble").hidden = true;
  document.body.classList.remove("stale");
  render(overview);
  second();
}

// Returns whether to keep polling: not while the key form is shown.
function failed(error) {
  const status = error instanceof Refused ? error.status : 0;
  if (status === 401 || (status === 403 && !state.overview)) {
    byId("main").hidden = true;
    byId("tools").hidden = true;
    byId("trouble").hidden = true;
    showKeyForm(true);
    return false;
  }
  if (status === 404) {
    state.listed = -Infinity;
    plain("No such experiment", `This service has no experiment called ${fromHash()}.`);
    return true;
  }
  state.failed = status ? `The service returned an error: ${error.message}` : "Cannot reach the service.";
  document.body.classList.add("stale");
  second();
  return true;
}

function plain(title, text) {
  state.overview = null;
  byId("main").hidden = true;
  byId("tools").hidden = true;
  byId("trouble").hidden = true;
  byId("guarantee-link").hidden = true;
  fill(byId("badges"));
  write(byId("about"), "");
  write(byId("name"), "sparing");
  showKeyForm(false);
  showSwitcher(fromHash());
  write(byId("plain-title"), title);
  write(byId("plain-text"), text);
  byId("plain").hidden = false;
}

function render(overview) {
  byId("main").hidden = false;
  byId("tools").hidden = false;
  byId("guarantee-link").hidden = false;
  renderHeader(overview);
  renderHeadline(overview);
  write(byId("stacked-title"), `Decisions per ${stepName(overview.step)}, by reason`);
  stacked.show(overview);
  bands.show(overview);
  renderActions(overview);
  renderLook(overview);
  renderGaps(overview);
  renderRecent(overview);
  write(byId("guarantee"), overview.guarantee);
  write(byId("version"), `sparing ${overview.health.version}`);
}

function renderHeader({ name, mode, asking, learner, log_rows: rows, health, look }) {
  document.title = `${name} · sparing`;
  write(byId("name"), name);
  showSwitcher(name);
  const [word, level] = MODES[mode] ?? [mode, "warning"];
  const alarms = look.filter((one) => one.level === "alarm").length;
  const well = health.status === "healthy" && alarms === 0;
  const status = alarms > 0 ? plural(alarms, "alarm") : health.status;
  fill(
    byId("badges"),
    el("span", { class: `badge ${well ? "good" : "alarm"}` }, `${well ? "✓" : "✕"} ${status}`),
    el("span", { class: `badge ${level}`, title: `mode ${mode}` }, `mode: ${word}`),
    asking === "shadow" && mode === "live" && el("span", { class: "badge yes", title: "The best mean is served; rewards are bought of actions that nobody is shown" }, "asks by shadow calls"),
  );
  for (const button of document.querySelectorAll("[data-mode]")) button.hidden = button.dataset.mode === mode;
  write(byId("about"), `${learner} · ${rows ? `warm-started from ${plural(rows, "logged row")}` : "started without a log"}`);
  fill(
    byId("formats"),
    ...FORMATS.map(([format, title]) => el("a", { href: `v1/${encodeURIComponent(name)}/export?format=${format}`, download: true }, title)),
  );
}

function showSwitcher(current) {
  const switcher = byId("switcher");
  const several = state.names.length > 1 || (state.names.length === 1 && !state.names.includes(current));
  switcher.hidden = !several;
  byId("name").classList.toggle("unseen", several);
  const names = state.names.includes(current) ? state.names : [current, ...state.names];
  fill(switcher, ...names.map((name) => el("option", { value: name }, name)));
  switcher.value = current;
}

// Once a second: update the ages of all times.
function second() {
  const updated = byId("updated");
  if (state.fetched !== null) {
    write(updated, `updated ${duration(since(state.fetched))} ago`);
    updated.title = exact(Date.now() / 1000 - since(state.fetched));
  }
  const trouble = byId("trouble");
  if (state.failed !== null) {
    const old = state.overview ? ` The numbers below are ${duration(since(state.fetched))} old.` : "";
    write(trouble, `✕ ${state.failed}${old} Retrying every ${number(EVERY / 1000)} s.`);
    trouble.hidden = false;
  }
  tick();
}

function setUp() {
  setUpActions();
  setUpKeyForm(refresh);
  setUpModes(() => state.name, refresh);
  setUpExplanations(() => state.name);
  addEventListener("hashchange", refresh);
  document.addEventListener("visibilitychange", () => document.hidden || refresh());
  byId("switcher").addEventListener("change", (event) => {
    location.hash = encodeURIComponent(event.target.value);
  });
  byId("skip").addEventListener("click", (event) => {
    event.preventDefault();
    byId("main").focus();
  });
  byId("guarantee-link").addEventListener("click", () => {
    const card = byId("guarantee-card");
    card.open = true;
    card.scrollIntoView({ block: "center" });
    card.querySelector("summary").focus({ preventScroll: true });
  });
  const menu = byId("export");
  document.addEventListener("click", (event) => {
    if (menu.open && (!menu.contains(event.target) || event.target.closest("a"))) menu.open = false;
  });
  menu.addEventListener("keydown", (event) => {
    if (event.key !== "Escape") return;
    menu.open = false;
    menu.querySelector("summary").focus();
  });
  setInterval(second, 1_000);
  refresh();
}

setUp();
