// Columns of text: hashed words and characters, projected to directions. The hashes and the order of sums are those of Python's sparing.

import { asWord } from "./cells.js";

const [SPACE, WORD] = [0, 1];
const BITS = 17;
const PLACES = 2 ** (BITS + 1);
const [SHORTEST, LONGEST] = [3, 4];
const [FIRST_MARK, LAST_MARK] = [2, 3];
const MOST_CHARACTERS = 32768;

// 64 bits as two halves: JavaScript's numbers have 53, and BigInt is slow.
const [GAMMA_HIGH, GAMMA_LOW] = [0x9e3779b9, 0x7f4a7c15];
let [high, low] = [0, 0];

/** The upper 32 bits of a product of two 32-bit numbers. @param {number} a @param {number} b */
function upper(a, b) {
  const [a0, a1, b0, b1] = [a & 0xffff, a >>> 16, b & 0xffff, b >>> 16];
  const cross = a1 * b0 + ((a0 * b0) >>> 16);
  const other = a0 * b1 + (cross & 0xffff);
  return (a1 * b1 + Math.floor(cross / 65536) + Math.floor(other / 65536)) >>> 0;
}

/** Multiply the state. @param {number} byHigh @param {number} byLow */
function multiply(byHigh, byLow) {
  high = (upper(low, byLow) + Math.imul(high, byLow) + Math.imul(low, byHigh)) >>> 0;
  low = Math.imul(low, byLow) >>> 0;
}

/** Extend the state by a word. @param {number} wordHigh @param {number} wordLow */
function fold(wordHigh, wordLow) {
  high = (high ^ wordHigh) >>> 0;
  low = (low ^ wordLow) >>> 0;
  multiply(GAMMA_HIGH, GAMMA_LOW);
  low = (low ^ high) >>> 0;
}

/** The place of a gram with its sign as the lowest bit, from the state, which is lost. */
function placeOf() {
  low = (low ^ ((low >>> 30) | (high << 2))) >>> 0;
  high = (high ^ (high >>> 30)) >>> 0;
  multiply(0xbf58476d, 0x1ce4e5b9);
  low = (low ^ ((low >>> 27) | (high << 5))) >>> 0;
  high = (high ^ (high >>> 27)) >>> 0;
  multiply(0x94d049bb, 0x133111eb);
  return (high ^ (high >>> 31)) >>> (31 - BITS);
}

/** @param {string} text */
function bytesOf(text) {
  return Uint8Array.from(atob(text), (letter) => letter.charCodeAt(0));
}

/** Little-endian numbers in base64. @param {string} text @param {number} size @param {(view: DataView, at: number) => number} read */
export function numbersOf(text, size, read) {
  const view = new DataView(bytesOf(text).buffer);
  return Float64Array.from({ length: view.byteLength / size }, (_, i) => read(view, i * size));
}

/** @param {string} text */
export function doublesOf(text) {
  return numbersOf(text, 8, (view, at) => view.getFloat64(at, true));
}

/** A number of half precision. @param {DataView} view @param {number} at */
function half(view, at) {
  const bits = view.getUint16(at, true);
  const [exponent, part] = [(bits >>> 10) & 31, bits & 1023];
  return (bits >>> 15 ? -1 : 1) * (exponent ? 2 ** (exponent - 15) * (1 + part / 1024) : 2 ** -14 * (part / 1024));
}

/** What Python knows of characters: the class of each code point, and small letters. */
export class Characters {
  /** @param {{class_starts: number[], classes: number[], folds: Record<string, string>, damped: string}} tables */
  constructor(tables) {
    this.classes = new Uint8Array(0x110000);
    tables.class_starts.forEach((start, i) => this.classes.fill(tables.classes[i], start, tables.class_starts[i + 1]));
    this.folds = new Map(Object.entries(tables.folds));
    this.damped = doublesOf(tables.damped);
  }

  /** The code points that are hashed. @param {string} text */
  normalized(text) {
    const cut = text.length <= MOST_CHARACTERS ? text : Array.from(text).slice(0, MOST_CHARACTERS).join("");
    if (/^[\x00-\x7f]*$/.test(cut)) return Array.from(cut.toLowerCase(), pointOf);
    return Array.from(Array.from(cut.normalize("NFKC"), (letter) => this.folds.get(letter) ?? letter).join(""), pointOf);
  }
}

/** @param {string} letter */
function pointOf(letter) {
  return /** @type {number} */ (letter.codePointAt(0));
}

/** A fitted column of text. */
export class TextColumn {
  /** @param {Record<string, any>} saved @param {Characters} characters */
  constructor(saved, characters) {
    this.characters = characters;
    this.saved = saved;
    this.slots = new Int32Array(PLACES).fill(-1);
    numbersOf(saved.places, 4, (view, at) => view.getUint32(at, true)).forEach((place, i) => {
      this.slots[place] = i;
    });
    this.idf = numbersOf(saved.idf, 4, (view, at) => view.getFloat32(at, true));
    this.axes = numbersOf(saved.axes, 2, half);
    this.width = saved.keep + 1;
  }

  /** Write the coordinates of a text. @param {unknown} value @param {number} place @param {Float64Array} out */
  write(value, place, out) {
    const { keep, mean, length_low, length_high, length_mean, length_scale, ngrams } = this.saved;
    const text = asWord(value);
    const found = this.projected(this.characters.normalized(text), ngrams, keep);
    for (let k = 0; k < keep; k++) out[place + k] = found[k] - mean[k];
    let size = text.length;
    if (/[^\x00-\x7f]/.test(text)) size = Array.from(text).length;
    const length = Math.min(Math.max(Math.log1p(Math.min(size, MOST_CHARACTERS)), length_low), length_high);
    out[place + keep] = (length - length_mean) * (1 / length_scale);
  }

  /** @param {number[]} points @param {number} ngrams @param {number} keep */
  projected(points, ngrams, keep) {
    const [slots, { damped }] = [this.slots, this.characters];
    /** @type {Map<number, number>} */
    const counts = new Map(); // in the order of the text
    for (const gram of this.grams(points, ngrams)) {
      const slot = slots[gram >>> 1];
      if (slot >= 0) counts.set(slot, (counts.get(slot) ?? 0) + 1 - 2 * (gram & 1));
    }
    const [norms, sums, words] = [[0, 0], [new Float64Array(keep), new Float64Array(keep)], this.wordRows];
    for (const [slot, count] of counts) {
      if (count === 0) continue;
      const of = slot < words ? 0 : 1;
      const size = damped[Math.min(Math.abs(count), damped.length - 1)] * this.idf[slot];
      norms[of] += size * size;
      const [signed, sum, line] = [count > 0 ? size : -size, sums[of], slot * keep];
      for (let k = 0; k < keep; k++) sum[k] += signed * this.axes[line + k];
    }
    const out = new Float64Array(keep);
    for (const of of [0, 1]) {
      if (norms[of] > 0) {
        const norm = Math.sqrt(norms[of]);
        for (let k = 0; k < keep; k++) out[k] += sums[of][k] / norm;
      }
    }
    return out;
  }

  /** The rows of words; those of characters come after them. */
  get wordRows() {
    let most = 0;
    for (let place = 0; place < 2 ** BITS; place++) if (this.slots[place] >= 0) most = this.slots[place] + 1;
    Object.defineProperty(this, "wordRows", { value: most });
    return most;
  }

  /** The place of each gram with its sign as the lowest bit. @param {number[]} points @param {number} ngrams */
  grams(points, ngrams) {
    const [{ classes }, stop] = [this.characters, points.length];
    const found = [];
    let [words, i] = [0, 0];
    let [before, beforeThat] = [[0, 0], [0, 0]];
    while (i < stop) {
      const kind = classes[points[i]];
      if (kind === SPACE) {
        i++;
        continue;
      }
      const first = i;
      [high, low] = [0, 0];
      fold(0, points[i++]);
      while (kind === WORD && i < stop && classes[points[i]] === WORD) fold(0, points[i++]);
      const state = [high, low];
      found.push(placeOf());
      if (ngrams > 1 && words > 0) {
        [high, low] = before;
        fold(state[0], state[1]);
        found.push(placeOf());
      }
      if (ngrams > 2 && words > 1) {
        [high, low] = beforeThat;
        fold(before[0], before[1]);
        fold(state[0], state[1]);
        found.push(placeOf());
      }
      [beforeThat, before] = [before, state];
      if (kind === WORD) {
        for (let j = first - 1; j < i + 2 - SHORTEST; j++) {
          let [partHigh, partLow] = [0, 0];
          for (let size = 0; size < LONGEST && j + size <= i; size++) {
            const k = j + size;
            const point = k < first ? FIRST_MARK : k < i ? points[k] : LAST_MARK;
            [high, low] = [partHigh, partLow];
            fold(0, point);
            [partHigh, partLow] = [high, low];
            if (size + 1 >= SHORTEST) found.push(placeOf() + 2 ** (BITS + 1));
          }
        }
      }
      words++;
    }
    return found;
  }
}
