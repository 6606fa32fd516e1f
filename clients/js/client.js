// A client of one experiment of the service `sparing serve`: retries are safe, and a fallback answers when the service does not.

const RETRY_STATUSES = new Set([429, 502, 503, 504]);
const DEFAULT_TIMEOUT = 10_000;
const PAUSE = 20;
const MAX_BATCH = 1000;

/** The service refused a request; it has an HTTP `status`, a stable `code`, a `detail` and the wrong `field`. */
export class ServiceProblem extends Error {
  /** @param {number} status @param {any} problem */
  constructor(status, problem) {
    const given = { code: "http", detail: `status ${status}`, ...problem };
    super(`${given.code}: ${given.detail}`);
    this.name = "ServiceProblem";
    this.status = status;
    this.code = String(given.code);
    this.detail = String(given.detail);
    this.field = given.field === undefined || given.field === null ? null : String(given.field);
  }
}

/** The service did not answer in time, after all retries. */
export class UnreachableError extends Error {
  /** @param {string} message @param {unknown} cause */
  constructor(message, cause) {
    super(message);
    this.name = "UnreachableError";
    this.cause = cause;
  }
}

/** A context with the settings of its decision, for `decideMany`. */
export class DecideRequest {
  /** @param {any} context @param {import("./index.js").DecideSettings} settings */
  constructor(context, settings = {}) {
    this.context = context;
    this.settings = settings;
  }
}

/** A new id of a request, also where pages have no secure context. */
function newId() {
  const bytes = new Uint8Array(16);
  if (globalThis.crypto?.getRandomValues) globalThis.crypto.getRandomValues(bytes);
  else bytes.forEach((_, i) => { bytes[i] = Math.floor(Math.random() * 256); });
  return Array.from(bytes, (byte) => byte.toString(16).padStart(2, "0")).join("");
}

/** The body of a request to decide. @param {any} context @param {import("./index.js").DecideSettings} settings */
function bodyOf(context, settings) {
  const { eligible, contextId, subject, requestId, explain, costs } = settings;
  /** @type {any} */
  const body = { context: ArrayBuffer.isView(context) ? Array.from(/** @type {any} */ (context)) : context, request_id: requestId ?? newId() };
  if (eligible !== undefined) body.eligible = Array.from(eligible);
  if (contextId !== undefined) body.context_id = contextId;
  if (subject !== undefined) body.subject = subject;
  if (explain !== undefined) body.explain = explain;
  if (costs !== undefined) body.costs = costs;
  return body;
}

/** @param {any} decision */
function idOf(decision) {
  return typeof decision === "string" ? decision : decision.decision_id;
}

/** An id within a path; proxies take "." and ".." for folders. @param {string} id */
function inPath(id) {
  return encodeURIComponent(id).replace(/\./g, "%2E");
}

/** @param {number} duration */
function pause(duration) {
  return new Promise((done) => setTimeout(done, duration));
}

/** A client of one experiment. */
export class Client {
  /** @param {string} url @param {string} experiment @param {import("./index.js").ClientSettings} settings */
  constructor(url, experiment, settings = {}) {
    const { key, timeoutMs = 200, fallback, retries = 2, fetch } = settings;
    this.base = `${url.replace(/\/+$/, "")}/v1/${encodeURIComponent(experiment)}`;
    this.timeoutMs = timeoutMs;
    this.fallback = fallback;
    this.tries = 1 + retries;
    /** @type {Record<string, string>} */
    this.headers = { "Content-Type": "application/json" };
    if (key !== undefined) this.headers.Authorization = `Bearer ${key}`;
    this._fetch = fetch ?? ((/** @type {string} */ address, /** @type {any} */ given) => globalThis.fetch(address, given));
  }

  /** Decide in one context. @param {any} context @param {import("./index.js").DecideSettings} settings @returns {Promise<any>} */
  async decide(context, settings = {}) {
    const fallback = settings.fallback ?? this.fallback;
    try {
      return await this._call("POST", "/decide", bodyOf(context, settings), settings.timeoutMs ?? this.timeoutMs);
    } catch (error) {
      const silent = error instanceof UnreachableError || (error instanceof ServiceProblem && RETRY_STATUSES.has(error.status));
      if (fallback === undefined || !silent) throw error;
      const action = typeof fallback === "function" ? await fallback(context) : fallback;
      return {
        ...{ decision_id: "", action, needs_reward: false, reason: "fallback", play_probability: 1, call_probability: 0 },
        ...{ value: null, low: null, high: null, worth: null, arm: "fallback", model_seq: 0, reward_by: null },
      };
    }
  }

  /** Decide in many contexts. @param {Iterable<any>} contexts @param {{timeoutMs?: number}} settings @returns {Promise<any[]>} */
  async decideMany(contexts, { timeoutMs = DEFAULT_TIMEOUT } = {}) {
    const asked = Array.from(contexts, (each) => (each instanceof DecideRequest ? bodyOf(each.context, each.settings) : bodyOf(each, {})));
    return this._batches("/decide/batch", "decisions", asked, timeoutMs);
  }

  /** Send the reward of a decision. @param {any} decision @param {number} value @param {{action?: any, rewardId?: string, timeoutMs?: number}} settings @returns {Promise<any>} */
  async reward(decision, value, { action, rewardId = newId(), timeoutMs = DEFAULT_TIMEOUT } = {}) {
    const id = idOf(decision);
    if (!id && typeof decision !== "string") return null;
    const body = { value, reward_id: rewardId, ...(action === undefined ? {} : { action }) };
    return this._call("POST", `/decisions/${inPath(id)}/reward`, body, timeoutMs);
  }

  /** Send the rewards of many decisions. @param {Iterable<[any, number]>} rewards @param {{timeoutMs?: number}} settings @returns {Promise<any[]>} */
  async rewardMany(rewards, { timeoutMs = DEFAULT_TIMEOUT } = {}) {
    const listed = Array.from(rewards, ([decision, value]) => ({ decision_id: idOf(decision), value, reward_id: newId() }));
    const items = await this._batches("/rewards/batch", "rewards", listed.filter((one) => one.decision_id), timeoutMs);
    return listed.map((one) => (one.decision_id ? items.shift() : null));
  }

  /** Replace the mistaken reward of a decision. @param {any} decision @param {number} value @param {{timeoutMs?: number}} settings @returns {Promise<any>} */
  async correct(decision, value, { timeoutMs = 60_000 } = {}) {
    return this._call("POST", `/decisions/${inPath(idOf(decision))}/reward/correct`, { value }, timeoutMs);
  }

  /** The rewards that are waited for, for people or judges; the oldest first. @param {{after?: number, timeoutMs?: number}} settings @returns {AsyncGenerator<any>} */
  async *queue({ after = 0, timeoutMs = DEFAULT_TIMEOUT } = {}) {
    yield* this._pages("queue", "asks", after, timeoutMs);
  }

  /** The present settings and counts of the experiment. @param {{timeoutMs?: number}} settings @returns {Promise<any>} */
  async about({ timeoutMs = DEFAULT_TIMEOUT } = {}) {
    return this._call("GET", "", undefined, timeoutMs);
  }

  /** The stored decisions and their outcomes, in order. @param {{after?: number, timeoutMs?: number}} settings @returns {AsyncGenerator<any>} */
  async *decisions({ after = 0, timeoutMs = DEFAULT_TIMEOUT } = {}) {
    yield* this._pages("decisions", "decisions", after, timeoutMs);
  }

  /** @param {string} path @param {string} name @param {number} after @param {number} timeoutMs @returns {AsyncGenerator<any>} */
  async *_pages(path, name, after, timeoutMs) {
    for (let more = after; more !== null && more !== undefined; ) {
      const page = await this._call("GET", `/${path}?after=${more}&limit=${MAX_BATCH}`, undefined, timeoutMs);
      yield* page[name];
      more = page.next;
    }
  }

  /** @param {string} path @param {string} name @param {any[]} listed @param {number} timeoutMs */
  async _batches(path, name, listed, timeoutMs) {
    const found = [];
    for (let start = 0; start < listed.length; start += MAX_BATCH) {
      const { items } = await this._call("POST", path, { [name]: listed.slice(start, start + MAX_BATCH) }, timeoutMs);
      found.push(...items.map((/** @type {any} */ one) => one.answer ?? new ServiceProblem(one.status, one.problem)));
    }
    return found;
  }

  /** Send a request, and retry while that may help and there is time. @param {string} method @param {string} path @param {any} body @param {number} timeoutMs */
  async _call(method, path, body, timeoutMs) {
    const content = body === undefined ? undefined : JSON.stringify(body);
    const end = Date.now() + timeoutMs * this.tries;
    let error;
    for (let number = 0; number < this.tries; number++) {
      const control = new AbortController();
      const timer = setTimeout(() => control.abort(new Error("no answer in time")), Math.max(1, Math.min(timeoutMs, end - Date.now())));
      try {
        const response = await this._fetch(this.base + path, { method, headers: this.headers, body: content, signal: control.signal });
        const text = await response.text();
        if (response.ok) return parsed(response.status, text);
        error = new ServiceProblem(response.status, problemOf(response.status, text));
        if (!RETRY_STATUSES.has(response.status)) throw error;
      } catch (failure) {
        if (failure instanceof ServiceProblem) throw failure;
        error = new UnreachableError(
          `no answer from ${this.base} after ${number + 1} tries of ${timeoutMs} ms (${reason(failure)}). Check that the service runs there, ` +
            "pass a longer timeoutMs, or pass a fallback",
          failure,
        );
      } finally {
        clearTimeout(timer);
      }
      const wait = Math.min(PAUSE * 2 ** number, timeoutMs);
      if (number + 1 >= this.tries || Date.now() + wait >= end) break;
      await pause(wait);
    }
    throw error;
  }
}

/** @param {any} failure */
function reason(failure) {
  const cause = failure?.cause;
  return cause?.code ?? cause?.message ?? failure?.message ?? String(failure);
}

/** @param {number} status @param {string} text */
function parsed(status, text) {
  try {
    return JSON.parse(text);
  } catch {
    throw new ServiceProblem(status, { code: "answer", detail: "not an answer of a sparing service" });
  }
}

/** @param {number} status @param {string} text */
function problemOf(status, text) {
  try {
    const found = JSON.parse(text);
    if (found && typeof found === "object") return found;
  } catch {
    // not JSON: a proxy's page
  }
  return { code: "http", detail: `${status} ${text.slice(0, 200)}`.trim() };
}
