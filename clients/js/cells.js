// Cells of raw columns: missing values, numbers, truth values, words. They are read as Python's sparing reads them, or refused.

const SPACE = "\\t-\\r\\x1c-\\x20\\x85\\xa0\\u1680\\u2000-\\u200a\\u2028\\u2029\\u202f\\u205f\\u3000";
const OUTER_SPACE = new RegExp(`^[${SPACE}]+|[${SPACE}]+$`, "g");
const PLAIN_NUMBER = /^[-+]?(?:[0-9]+\.?[0-9]*|\.[0-9]+)(?:[eE][-+]?[0-9]+)?$/;

/** The largest size of a number. */
export const LARGEST = 1e50;

/** A value that does not fit its column. */
export class CellError extends Error {}

/** @param {string} text */
export function strip(text) {
  return text.replace(OUTER_SPACE, "");
}

/** @param {unknown} value @returns {boolean} */
export function isMissing(value) {
  return value === null || value === undefined || value === "" || Number.isNaN(value) || (value instanceof Date && Number.isNaN(value.getTime()));
}

/** @param {number} number */
function finite(number) {
  if (!(Math.abs(number) <= LARGEST)) throw new CellError();
  return number;
}

/** @param {string} text */
function plainNumber(text) {
  if (!PLAIN_NUMBER.test(text)) throw new CellError();
  return finite(Number(text));
}

/** @type {Record<string, string>} */
const UNITS = { "%": "%" };
for (const names of ["€ EUR", "$ USD", "£ GBP", "¥ JPY", "CHF Fr.", "zł PLN", "kr SEK NOK DKK", "Kč CZK", "Ft HUF", "lei RON"]) {
  for (const name of names.split(" ")) UNITS[lower(name)] = names.split(" ")[0];
}

/** Small letters of ASCII. @param {string} text */
function lower(text) {
  return text.replace(/[A-Z]/g, (letter) => letter.toLowerCase());
}

/** A pattern that matches ASCII letters in either case. @param {string} text */
function eitherCase(text) {
  return text.replace(/[$.]/g, "\\$&").replace(/[a-zA-Z]/g, (letter) => `[${letter.toLowerCase()}${letter.toUpperCase()}]`);
}

const NARROW = " \\u00a0\\u202f\\u2009\\u2007";

/** A number with a decimal mark, groups of thousands, and a unit before or after it. @param {string} mark */
function numeral(mark) {
  const unit = Object.keys(UNITS).sort((one, other) => other.length - one.length).map(eitherCase).join("|");
  const group = `${mark === "." ? "," : "."}'’${NARROW}`;
  return new RegExp(
    `^(?:(?<first>${unit})[${NARROW}]?)?(?<sign>[-+−]?)[${NARROW}]?(?:(?<second>${unit})[${NARROW}]?)?` +
      `(?<whole>[1-9][0-9]{0,2}(?<group>[${group}])[0-9]{3}(?:\\k<group>[0-9]{3})*|[0-9]*)` +
      `(?:[${mark}](?<part>[0-9]+))?(?:[eE](?<power>[-+]?[0-9]{1,4}))?(?:[${NARROW}]?(?<third>${unit}))?$`,
  );
}

/** @type {Record<string, RegExp>} */
const NUMERALS = { ".": numeral("."), ",": numeral(",") };

/**
 * A number as text in the notation of the log.
 * @param {string} given
 * @param {{decimal: string, unit: string}} notation
 */
function readNumber(given, notation) {
  const text = strip(given);
  let [number, unit] = [NaN, ""];
  if ((notation.decimal === "." || !text.includes(".")) && PLAIN_NUMBER.test(text) && Math.abs(Number(text)) <= LARGEST) {
    number = Number(text);
  } else {
    const found = NUMERALS[notation.decimal].exec(text)?.groups;
    if (!found || !(found.whole || found.part)) throw new CellError();
    const units = [found.first, found.second, found.third].filter(Boolean);
    if (units.length > 1) throw new CellError();
    unit = units.length ? UNITS[lower(units[0])] : "";
    const whole = found.group ? found.whole.split(found.group).join("") : found.whole;
    const power = Number(found.power ?? 0) - (unit === "%" ? 2 : 0);
    const sign = found.sign === "-" || found.sign === "−" ? "-" : "";
    number = finite(Number(`${sign}${whole || 0}.${found.part || 0}e${power}`));
  }
  if (unit !== notation.unit && (unit || (notation.unit === "%" && number !== 0))) throw new CellError();
  return number;
}

/**
 * A finite number, or one written as text.
 * @param {unknown} value
 * @param {{decimal: string, unit: string} | undefined} [notation]
 * @returns {number}
 */
export function asNumber(value, notation) {
  if (typeof value === "number") return finite(value);
  if (typeof value === "string") return notation ? readNumber(value, notation) : plainNumber(strip(value));
  if (typeof value === "boolean" || typeof value === "bigint") return finite(Number(value));
  throw new CellError();
}

/** Words for yes and for no, in small letters. */
export const TRUTH_WORDS = new Map([
  ...words("true yes t y ja j wahr oui vrai sí si verdadero sì vero sim verdadeiro tak prawda waar sand sandt sant kyllä tosi", 1),
  ...words("false no f n nein falsch non faux falso não nao nie fałsz nee onwaar nej nei falsk falskt usant ei epätosi", 0),
]);

/** @param {string} listed @param {number} truth @returns {[string, number][]} */
function words(listed, truth) {
  return listed.split(" ").map((word) => [word, truth]);
}

/** 1 or 0 for a truth value. @param {unknown} value @returns {number} */
export function asTruth(value) {
  if (typeof value === "string") {
    const word = strip(value).toLowerCase();
    return TRUTH_WORDS.get(word) ?? asTruth(asNumber(word));
  }
  if (value === true || value === false || value === 0 || value === 1) return Number(value);
  throw new CellError();
}

/** A category as text: 5 and 5.0 are "5", true is "true". @param {unknown} value @returns {string} */
export function asWord(value) {
  if (typeof value === "string") return value;
  if (typeof value === "boolean" || typeof value === "bigint") return String(value);
  if (typeof value === "number") return Number.isInteger(value) ? BigInt(value).toString() : pythonNumber(value);
  throw new CellError();
}

/** A number that is not whole, as Python writes it. @param {number} value */
function pythonNumber(value) {
  if (!Number.isFinite(value)) return value > 0 ? "inf" : "-inf";
  const [mantissa, power] = Math.abs(value).toExponential().split("e");
  const [digits, exponent, sign] = [mantissa.replace(".", ""), Number(power), value < 0 ? "-" : ""];
  if (exponent < -4) {
    const fraction = digits.length > 1 ? `.${digits.slice(1)}` : "";
    return `${sign}${digits[0]}${fraction}e-${String(-exponent).padStart(2, "0")}`;
  }
  if (exponent < 0) return `${sign}0.${"0".repeat(-exponent - 1)}${digits}`;
  return `${sign}${digits.slice(0, exponent + 1)}.${digits.slice(exponent + 1)}`;
}

const CRC = Uint32Array.from({ length: 256 }, (_, byte) => {
  let sum = byte;
  for (let bit = 0; bit < 8; bit++) sum = sum & 1 ? (sum >>> 1) ^ 0xedb88320 : sum >>> 1;
  return sum;
});

/** The checksum CRC-32 of a text in UTF-8. @param {string} text */
export function crc32(text) {
  if (/\p{Surrogate}/u.test(text)) throw new CellError();
  let sum = -1;
  for (const byte of new TextEncoder().encode(text)) sum = CRC[(sum ^ byte) & 255] ^ (sum >>> 8);
  return ~sum >>> 0;
}
