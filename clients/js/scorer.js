// Policies that `policy.export("json")` of Python's sparing wrote, scored without a service.

import { asNumber, asTruth, asWord, CellError, crc32, isMissing, LARGEST } from "./cells.js";
import { asSeconds } from "./moments.js";
import { Characters, doublesOf, TextColumn } from "./texts.js";

const FORMAT = "sparing scorer";
const VERSION = 1;
const ENCODER_VERSIONS = [1, 2];
const [DAY, MINUTE] = [86400, 60];

/** A context that does not fit the policy, or a file that is no policy. */
export class ScorerError extends Error {
  /** @param {string} message */
  constructor(message) {
    super(message);
    this.name = "ScorerError";
  }
}

/**
 * @typedef {object} Column
 * @property {string} name
 * @property {number} width its features, without the one for missing values
 * @property {boolean} gap whether there is a feature for missing values
 * @property {string} expected
 * @property {(value: any, place: number, out: Float64Array) => void} write writes the features of a value that is not missing
 * @property {(value: any) => boolean} [isMissing]
 * @property {boolean} [required] whether a missing value is refused
 */

/** Python's remainder, which has the sign of the divisor. @param {number} value @param {number} by */
function modulo(value, by) {
  const rest = value % by;
  return rest < 0 ? rest + by : rest;
}

/** Python's whole quotient. @param {number} value @param {number} by */
function quotient(value, by) {
  const found = (value - modulo(value, by)) / by;
  const whole = Math.floor(found);
  return found - whole > 0.5 ? whole + 1 : whole;
}

/** @param {number} value @param {number} low @param {number} high */
function clip(value, low, high) {
  return value < low ? low : Math.min(value, high);
}

/** @type {Record<string, (saved: any, tables: any) => Omit<Column, "name" | "gap">>} */
const KINDS = {
  number: (saved) => {
    const [times, low, high] = [1 / saved.scale, saved.low ?? -Infinity, saved.high ?? Infinity];
    return {
      width: 1,
      expected: `a finite number, at most ${LARGEST} in size`,
      write(value, place, out) {
        out[place] = (clip(asNumber(value, saved.notation), low, high) - saved.mean) * times;
      },
    };
  },
  raw: (saved) => ({
    width: 1,
    required: true,
    expected: `a finite number, at most ${LARGEST} in size`,
    write(value, place, out) {
      out[place] = asNumber(value, saved.notation);
    },
  }),
  category: (saved) => {
    const other = saved.values.length;
    const places = new Map((saved.rare_values ?? []).map((/** @type {string} */ value) => [value, other]));
    saved.values.forEach((/** @type {string} */ value, /** @type {number} */ i) => places.set(value, i));
    const hidden = saved.rare > 0 && saved.rare_values === undefined;
    const unseen = saved.unseen_place ? other + (saved.rare > 0 ? 1 : 0) : -1;
    return {
      width: other + (saved.rare > 0 ? 1 : 0) + (saved.unseen_place ? 1 : 0),
      expected: "a text, a whole number or a truth value",
      write(value, place, out) {
        const found = places.get(asWord(value)) ?? (hidden ? other : unseen);
        if (found >= 0) out[place + found] = 1;
      },
    };
  },
  hashed: (saved) => ({
    width: saved.size,
    expected: "a text, a whole number or a truth value",
    write(value, place, out) {
      out[place + (crc32(asWord(value)) % saved.size)] = 1;
    },
  }),
  bool: () => ({
    width: 1,
    expected: "true or false",
    write(value, place, out) {
      out[place] = 2 * asTruth(value) - 1;
    },
  }),
  time: (saved, tables) => {
    const [hours, days] = [doublesOf(tables.hours), doublesOf(tables.days)];
    const first = { "time-day-first": "day", "time-month-first": "month" }[/** @type {string} */ (saved.kind)];
    return {
      width: 5,
      expected: "a date or moment such as 2026-03-01T10:00 (ISO 8601), a Date, or seconds (not milliseconds) since 1970",
      write(value, place, out) {
        const moment = asSeconds(value, first);
        const within = clip(moment, saved.first, saved.last);
        const minute = Math.floor(quotient(modulo(moment, DAY), MINUTE));
        const day = modulo(quotient(saved.under_week ? within : moment, DAY) + 3, 7);
        out.set(hours.subarray(2 * minute, 2 * minute + 2), place);
        out.set(days.subarray(2 * day, 2 * day + 2), place + 2);
        out[place + 4] = (within - saved.mean) / saved.scale;
      },
    };
  },
  vector: (saved) => {
    const offset = saved.axes.map((/** @type {number[]} */ axis) => dot(axis, saved.mean));
    return {
      width: saved.axes.length,
      expected: `a list of ${saved.size} finite numbers`,
      isMissing: (value) => value === null || value === undefined || Number.isNaN(value),
      write(value, place, out) {
        const list = isNumbers(value) ? Array.from(value) : [];
        if (list.length !== saved.size || !list.every((each) => Math.abs(each) <= LARGEST)) throw new CellError();
        saved.axes.forEach((/** @type {number[]} */ axis, /** @type {number} */ i) => {
          out[place + i] = dot(list, axis) - offset[i];
        });
      },
    };
  },
  text: (saved, tables) => {
    const column = new TextColumn(saved, tables.characters());
    return {
      width: column.width,
      expected: "a text",
      write: (value, place, out) => column.write(value, place, out),
    };
  },
};
KINDS["time-day-first"] = KINDS["time-month-first"] = KINDS.time;

/** @param {ArrayLike<number>} one @param {ArrayLike<number>} other */
function dot(one, other) {
  let sum = 0;
  for (let i = 0; i < one.length; i++) sum += one[i] * other[i];
  return sum;
}

/** Whether a value is a list of numbers. @param {any} value @returns {value is ArrayLike<number>} */
function isNumbers(value) {
  if (Array.isArray(value)) return value.every((each) => typeof each === "number");
  return ArrayBuffer.isView(value) && !(value instanceof DataView) && !(value instanceof BigInt64Array) && !(value instanceof BigUint64Array);
}

/** A policy with linear scores. */
export class Scorer {
  /** @param {any} saved what `policy.export("json")` wrote: the text, or the object that JSON.parse makes of it */
  constructor(saved) {
    const given = typeof saved === "string" ? JSON.parse(saved) : saved;
    if (given?.format !== FORMAT) throw new ScorerError('JSON without a policy; expected what policy.export("json") of Python\'s sparing writes');
    const encoder = given.encoder;
    if (given.version !== VERSION || (encoder && !ENCODER_VERSIONS.includes(encoder.version))) {
      throw new ScorerError(`a policy of version ${given.version}; this package reads ${VERSION}. Install a newer package, or export the policy again`);
    }
    /** @type {any[]} */
    this.actions = given.actions.map(labelOf);
    /** @type {Float64Array[]} */
    this.theta = given.theta.map((/** @type {number[]} */ row) => Float64Array.from(row));
    this.costs = given.costs;
    /** @type {number[]} */
    this.order = given.order;
    /** @type {number | null} */
    this.temperature = given.temperature;
    /** @type {string} */
    this.method = given.method;
    this.size = this.theta[0]?.length ?? 0;
    /** @type {Column[] | undefined} */
    this.columns = undefined;
    /** @type {Set<string>} */
    this.ignored = new Set();
    this.constant = 0;
    this.kernel = null;
    if (encoder) this._read(encoder, given.tables);
    const numbers = [...this.theta, this.costs ?? []];
    const whole = this.order.length === this.actions.length && new Set(this.order).size === this.order.length;
    if (!whole || this.theta.length !== this.actions.length || numbers.some((row) => row.some((/** @type {number} */ each) => !Number.isFinite(each)))) {
      throw new ScorerError("a damaged policy; export it again");
    }
  }

  /** @param {any} encoder @param {any} saved */
  _read(encoder, saved) {
    /** @type {Characters | undefined} */
    let characters;
    const tables = { ...saved, characters: () => (characters ??= new Characters(saved)) };
    const columns = encoder.raw ? encoder.raw.map((/** @type {string} */ column) => ({ kind: "raw", column, gap: false })) : encoder.columns;
    this.columns = columns.map((/** @type {any} */ each) => {
      const kind = KINDS[each.kind];
      if (!kind) throw new ScorerError(`a column of the kind ${each.kind}, which this package does not know. Install a newer one`);
      return { name: each.column, gap: each.gap, ...kind(each, tables) };
    });
    const names = new Set(this.columns?.map((column) => column.name));
    const left = (encoder.left_out ?? []).map((/** @type {string[]} */ pair) => pair[0]);
    this.ignored = new Set([...left, ...(encoder.roles ?? [])].filter((name) => !names.has(name)));
    this.constant = encoder.raw || !encoder.constant ? 0 : 1;
    if (encoder.kernel) {
      const [half, { landmarks, root }] = [0.5 / encoder.kernel.width ** 2, encoder.kernel];
      this.kernel = { half, landmarks, root, away: landmarks.map((/** @type {number[]} */ row) => half * dot(row, row)) };
    }
    const width = this.columns?.reduce((sum, column) => sum + column.width + (column.gap ? 1 : 0), this.constant) ?? 0;
    this.linear = width;
    if (width + (this.kernel ? (this.kernel.root[0]?.length ?? 0) : 0) !== this.size) throw new ScorerError("a damaged policy; export it again");
  }

  /** The features of a row: raw columns by name, or the numbers themselves. @param {any} row @returns {Float64Array} */
  encode(row) {
    if (isNumbers(row)) {
      const out = Float64Array.from(row);
      if (out.length !== this.size || !out.every(Number.isFinite)) throw new ScorerError(`${out.length} numbers; expected ${this.size} finite ones`);
      return out;
    }
    if (!this.columns) throw new ScorerError(`a row with names; this policy has no columns, so expected a list of ${this.size} numbers`);
    const out = new Float64Array(this.size);
    out[0] = this.constant;
    let place = this.constant;
    for (const column of this.columns) {
      const value = Object.hasOwn(row, column.name) ? row[column.name] : undefined;
      if (value === undefined) throw new ScorerError(`no column ${JSON.stringify(column.name)}; give null where it is missing. ${this._known()}`);
      const last = place + column.width;
      if ((column.isMissing ?? isMissing)(value)) {
        if (column.required) throw new ScorerError(`${column.name} is missing, and this policy has no feature for that. Fill it in`);
        if (column.gap) out[last] = 1;
      } else {
        try {
          column.write(value, place, out);
        } catch (error) {
          if (!(error instanceof CellError)) throw error;
          throw new ScorerError(`${column.name} is ${shown(value)}; expected ${column.expected}, or null if it is missing`);
        }
      }
      place = last + (column.gap ? 1 : 0);
    }
    const names = Object.keys(row);
    if (names.length !== this.columns.length) {
      const known = new Set(this.columns.map((column) => column.name));
      const unknown = names.find((name) => !known.has(name) && !this.ignored.has(name));
      if (unknown !== undefined) throw new ScorerError(`unknown column ${JSON.stringify(unknown)}. ${this._known()}`);
    }
    if (this.kernel) {
      const { landmarks, away, half, root } = this.kernel;
      const x = out.subarray(this.constant, place);
      const own = half * dot(x, x);
      landmarks.forEach((/** @type {number[]} */ landmark, /** @type {number} */ i) => {
        const similarity = Math.exp(Math.min(2 * half * dot(x, landmark) - away[i] - own, 0));
        root[i].forEach((/** @type {number} */ weight, /** @type {number} */ j) => {
          out[place + j] += similarity * weight;
        });
      });
    }
    return out;
  }

  _known() {
    return `The columns are ${this.columns?.slice(0, 12).map((column) => column.name).join(", ") || "none"}`;
  }

  /** The score of each action, less its cost. @param {any} row @returns {Float64Array} */
  scores(row) {
    const x = this.encode(row);
    return Float64Array.from(this.theta, (theta, action) => {
      const score = dot(x, theta);
      return this.costs ? score - this.costs[action] : score;
    });
  }

  /** The probability of each action. @param {any} row @returns {Float64Array} */
  probabilities(row) {
    const scores = this.scores(row);
    if (this.temperature === null) return scores.map((_, action) => (action === this._best(scores) ? 1 : 0));
    const most = scores.reduce((one, other) => Math.max(one, other / /** @type {number} */ (this.temperature)), -Infinity);
    const weights = scores.map((score) => Math.exp(score / /** @type {number} */ (this.temperature) - most));
    const sum = weights.reduce((one, other) => one + other, 0);
    return weights.map((weight) => weight / sum);
  }

  /** The action to play; a policy with a temperature draws it. @param {any} row @param {() => number} random */
  action(row, random = Math.random) {
    if (this.temperature === null) return this.actions[this._best(this.scores(row))];
    const shares = this.probabilities(row);
    let left = random() * shares.reduce((one, other) => one + other, 0);
    const drawn = shares.findIndex((share) => (left -= share) < 0);
    return this.actions[drawn < 0 ? this.actions.length - 1 : drawn];
  }

  /** @param {Float64Array} scores */
  _best(scores) {
    return this.order.reduce((best, action) => (scores[action] > scores[best] ? action : best), this.order[0]);
  }
}

/** @param {any} label @returns {any} */
function labelOf(label) {
  if (label !== null && typeof label === "object") return label.tuple.map(labelOf);
  if (Number.isInteger(label) && !Number.isSafeInteger(label)) {
    throw new ScorerError(`the action ${label} is a number that JavaScript cannot hold exactly. Use texts for the labels in the log`);
  }
  return label;
}

/** @param {unknown} value */
function shown(value) {
  const text = typeof value === "string" ? JSON.stringify(value) : String(value);
  return text.length > 80 ? `${text.slice(0, 80)}…` : text;
}
