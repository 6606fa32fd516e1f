// Dates and times as seconds since 1970 in UTC. They are read as Python's sparing reads them, or refused (ISO weeks).

import { asNumber, CellError, strip } from "./cells.js";

const CLOCK = "(?:[ T](?<hour>\\d{1,2})(?<rest>:\\d\\d(?::\\d\\d)?)(?: ?(?<half>[AaPp])[Mm])?)?";
const WEEKDAY = "(?:(?:Mon|Tue|Wed|Thu|Fri|Sat|Sun)[a-z]{0,6},? )?";
const FORMS = [
  `(?<day>\\d{1,2})\\.(?<month>\\d{1,2})\\.(?<year>\\d{4})${CLOCK}`,
  `(?<year>\\d{4})/(?<month>\\d{1,2})/(?<day>\\d{1,2})${CLOCK}`,
  `${WEEKDAY}(?<day>\\d{1,2})(?<mark>[ -])(?<named>[A-Za-z]{3,9})\\k<mark>(?<year>\\d{4})${CLOCK}`,
  `${WEEKDAY}(?<named>[A-Za-z]{3,9}) (?<day>\\d{1,2}),? (?<year>\\d{4})${CLOCK}`,
].map((form) => new RegExp(`^${form}$`));
const YEAR_LAST = new RegExp(`^(?<one>\\d{1,2})(?<mark>[/-])(?<two>\\d{1,2})\\k<mark>(?<year>\\d{4})${CLOCK}$`);
const MONTHS = "january february march april may june july august september october november december".split(" ");
const ISO_DATE = /^(\d{4})(?:-(\d\d)-(\d\d)|(\d\d)(\d\d))(?:[^](.+))?$/su;
const ISO_TIME = /^(\d\d)(?:(?::(\d\d)(?::(\d\d)(?:[.,](\d+))?)?)|(?:(\d\d)(?:(\d\d)(?:[.,](\d+))?)?))?(Z|[-+].+)?$/;
const OFFSET = /^([-+])(\d\d)(?::?(\d\d)(?::?(\d\d))?)?$/;
const ZONE = /(\d) ?(?:UTC|GMT)$/;
const COMPACT = /^(?:19|20)\d{6}$/;
const [FIRST_SECOND, LAST_SECOND] = [-62135596800, 253402300800];

/**
 * Seconds since 1970 in UTC of a date, a moment or a text of one, or seconds themselves.
 * @param {unknown} value
 * @param {string | undefined} first whether the "day" or the "month" is first in a text that does not tell
 * @returns {number}
 */
export function asSeconds(value, first) {
  if (value instanceof Date) return withinYears(value.getTime() / 1000);
  if (typeof value === "string") {
    const found = parseTime(value, first);
    if (found) return found.seconds;
  }
  const seconds = asNumber(value);
  const digits = Number.isInteger(seconds) ? String(seconds) : "";
  if (COMPACT.test(digits)) {
    const date = parseIso(digits);
    if (date) return date.seconds;
  }
  return withinYears(seconds);
}

/** Seconds of a year from 1 to 9999, as Python's moments have. @param {number} seconds */
function withinYears(seconds) {
  if (!(seconds >= FIRST_SECOND && seconds < LAST_SECOND)) throw new CellError();
  return seconds;
}

/** @typedef {{seconds: number, zoned: boolean}} Moment */

/** @param {string} given @param {string | undefined} first @returns {Moment | undefined} */
function parseTime(given, first) {
  const text = strip(given);
  const plain = text.replace(ZONE, "$1");
  const found = parseIso(text);
  if (found || plain === text) return found ?? parseDate(text, first);
  const moment = parseTime(plain, first);
  return plain.includes(":") && moment && !moment.zoned ? moment : undefined;
}

/** @param {string} text @param {string | undefined} first @returns {Moment | undefined} */
function parseDate(text, first) {
  let found = FORMS.map((form) => form.exec(text)?.groups).find(Boolean);
  if (!found && first !== undefined) found = YEAR_LAST.exec(text)?.groups;
  if (!found) return undefined;
  let { day, month } = found;
  if (found.one !== undefined) [day, month] = first === "day" ? [found.one, found.two] : [found.two, found.one];
  if (found.named !== undefined) {
    const name = found.named.toLowerCase();
    month = String(MONTHS.findIndex((each) => name === each || name === each.slice(0, 3)) + 1);
  }
  let clock = "";
  if (found.hour !== undefined) {
    let hour = Number(found.hour);
    if (found.half !== undefined) {
      if (hour < 1 || hour > 12) return undefined;
      hour = (hour % 12) + (/p/i.test(found.half) ? 12 : 0);
    }
    clock = `T${String(hour).padStart(2, "0")}${found.rest}`;
  }
  return parseIso(`${found.year}-${month.padStart(2, "0")}-${day.padStart(2, "0")}${clock}`);
}

/** @param {string} text @returns {Moment | undefined} */
function parseIso(text) {
  const date = ISO_DATE.exec(text);
  if (!date) return undefined;
  const [year, month, day] = [Number(date[1]), Number(date[2] ?? date[4]), Number(date[3] ?? date[5])];
  const days = daysSince1970(year, month, day);
  if (days === undefined) return undefined;
  if (date[6] === undefined) return { seconds: days * 86400, zoned: false };
  const time = ISO_TIME.exec(date[6]);
  if (!time) return undefined;
  const [hour, minute, second] = [Number(time[1]), Number(time[2] ?? time[5] ?? 0), Number(time[3] ?? time[6] ?? 0)];
  if (hour > 23 || minute > 59 || second > 59) return undefined;
  const offset = time[8] === undefined || time[8] === "Z" ? 0 : offsetOf(time[8]);
  if (offset === undefined) return undefined;
  const whole = days * 86400 + hour * 3600 + minute * 60 + second - offset;
  return { seconds: exactSeconds(whole, (time[4] ?? time[7] ?? "").slice(0, 6)), zoned: time[8] !== undefined };
}

/** @param {string} text @returns {number | undefined} */
function offsetOf(text) {
  const found = OFFSET.exec(text);
  if (!found) return undefined;
  const [hours, minutes, seconds] = [Number(found[2]), Number(found[3] ?? 0), Number(found[4] ?? 0)];
  if (hours > 23 || minutes > 59 || seconds > 59) return undefined;
  return (found[1] === "-" ? -1 : 1) * (hours * 3600 + minutes * 60 + seconds);
}

/** The nearest number to whole seconds and the digits of a fraction. @param {number} whole @param {string} fraction */
function exactSeconds(whole, fraction) {
  const micro = BigInt(whole) * 1000000n + BigInt(fraction.padEnd(6, "0"));
  const size = micro < 0n ? -micro : micro;
  return Number(`${micro < 0n ? "-" : ""}${size / 1000000n}.${String(size % 1000000n).padStart(6, "0")}`);
}

/** Days from 1970 to a date of the Gregorian calendar; undefined if there is no such date. @param {number} year @param {number} month @param {number} day */
function daysSince1970(year, month, day) {
  const leap = year % 4 === 0 && (year % 100 !== 0 || year % 400 === 0);
  const length = [31, leap ? 29 : 28, 31, 30, 31, 30, 31, 31, 30, 31, 30, 31][month - 1];
  if (length === undefined || year < 1 || day < 1 || day > length) return undefined;
  const time = new Date(0);
  time.setUTCFullYear(year, month - 1, day);
  return time.getTime() / 86400000;
}
