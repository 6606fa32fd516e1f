// Requests to the service, the key form, and the dialog that changes the mode.

import { byId, write } from "./text.js";

export class Refused extends Error {
  constructor(status, problem) {
    super(problem.detail || problem.title || `The service answered ${status}.`);
    this.status = status;
  }
}

// Throws Refused for an error response; without a response, the error of fetch.
export async function ask(path, options = {}) {
  const answer = await fetch(path, { cache: "no-store", credentials: "same-origin", signal: AbortSignal.timeout(10_000), ...options });
  if (answer.ok) return answer.status === 204 ? null : answer.json();
  const problem = await answer.json().catch(() => ({}));
  throw new Refused(answer.status, problem);
}

function post(path, message, key) {
  const headers = { "Content-Type": "application/json" };
  if (key) headers.Authorization = `Bearer ${key}`;
  return ask(path, { method: "POST", headers, body: JSON.stringify(message) });
}

const denied = (error) => error instanceof Refused && (error.status === 401 || error.status === 403);
const words = (error) => (error instanceof Refused ? error.message : "The service cannot be reached.");

// Remembers that there is a session, for the sign-out button: scripts cannot read the cookie.
const KEYED = "sparing-keyed";

export function setUpKeyForm(entered) {
  const form = byId("key-form");
  const input = byId("key");
  form.addEventListener("submit", async (event) => {
    event.preventDefault();
    const key = input.value;
    write(byId("key-wrong"), "");
    try {
      await post("session", { key });
    } catch (error) {
      write(byId("key-wrong"), denied(error) ? "This key is not valid." : words(error));
      input.select();
      return;
    }
    input.value = "";
    form.hidden = true;
    localStorage.setItem(KEYED, "yes");
    entered();
  });
  byId("forget").addEventListener("click", async () => {
    await ask("session", { method: "DELETE" }).catch(() => null);
    localStorage.removeItem(KEYED);
    location.reload();
  });
}

export function showKeyForm(wanted) {
  const form = byId("key-form");
  byId("forget").hidden = wanted || localStorage.getItem(KEYED) === null;
  if (form.hidden === !wanted) return;
  form.hidden = !wanted;
  if (wanted) byId("key").focus();
}

const MODES = {
  live: ["Go live?", "From the next decision on, the learner chooses the actions and requests rewards.", "Go live"],
  shadow: ["Switch to shadow mode?", "From the next decision on, the fallback serves every request. The learner learns from its rewards, but decides nothing.", "Shadow"],
  fallback: ["Stop, and serve the fallback?", "From the next decision on, the fallback serves every request, without reward calls. You can go live again at any time.", "Stop: serve fallback"],
};

// Calls `changed` after the mode was changed; `name` returns the experiment.
export function setUpModes(name, changed) {
  const dialog = byId("ask");
  const keyRow = byId("ask-key");
  const key = byId("admin-key");
  let wanted = null;
  for (const button of document.querySelectorAll("[data-mode]")) {
    button.addEventListener("click", () => {
      wanted = { mode: button.dataset.mode, name: name() };
      const [title, text, yes] = MODES[wanted.mode];
      write(byId("ask-title"), title);
      write(byId("ask-text"), `${wanted.name}: ${text.charAt(0).toLowerCase()}${text.slice(1)}`);
      write(byId("ask-yes"), yes);
      byId("ask-yes").classList.toggle("stop", wanted.mode === "fallback");
      write(byId("ask-wrong"), "");
      keyRow.hidden = true;
      dialog.showModal();
      byId("ask-no").focus();
    });
  }
  byId("ask-no").addEventListener("click", () => dialog.close());
  dialog.addEventListener("close", () => {
    key.value = "";
  });
  byId("ask-form").addEventListener("submit", async (event) => {
    event.preventDefault();
    const given = key.value;
    const yes = byId("ask-yes");
    yes.disabled = true;
    write(byId("ask-wrong"), "");
    try {
      await post(`v1/${encodeURIComponent(wanted.name)}/mode`, { mode: wanted.mode }, given);
      dialog.close();
      changed();
    } catch (error) {
      if (denied(error)) {
        const first = keyRow.hidden;
        keyRow.hidden = false;
        key.value = "";
        key.focus();
        write(byId("ask-wrong"), first ? "" : "This key does not permit changing the mode.");
      } else {
        write(byId("ask-wrong"), `Nothing was changed. ${words(error)}`);
      }
    } finally {
      yes.disabled = false;
    }
  });
}
