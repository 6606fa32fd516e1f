// Scales, ticks and the frame of a chart.

import { svg } from "./dom.js";
import { NONE, decimals, number } from "./words.js";

export const MARGIN = { top: 10, right: 12, bottom: 26, left: 46 };

// Round numbers from `low` to `high`, about `most` of them.
export function niceTicks(low, high, most) {
  const rough = (high - low || Math.abs(high) || 1) / Math.max(1, most);
  const power = 10 ** Math.floor(Math.log10(rough));
  const step = [1, 2, 2.5, 5, 10].map((m) => m * power).find((s) => s >= rough * 0.999) ?? 10 * power;
  const ticks = [];
  for (let n = Math.ceil(low / step - 1e-9); n <= Math.floor(high / step + 1e-9); n += 1) ticks.push(n * step);
  return ticks;
}

export const stepOf = (ticks) => (ticks.length > 1 ? ticks[1] - ticks[0] : Math.abs(ticks[0]) || 1);

// The range with a little air on both sides.
export function padded(low, high) {
  const air = 0.03 * (high - low) || 0.1 * Math.abs(high) || 1;
  return [low - air, high + air];
}

export function tickText(value, step) {
  const places = [0, 1, 2, 3, 4, 5, 6].find((p) => Math.abs(step * 10 ** p - Math.round(step * 10 ** p)) < 1e-6);
  return number(value, places ?? decimals(step, 1));
}

const MINUTE = 60;
const HOUR = 3600;
const DAY = 86400;
const STEPS = [1, 2, 5, 10, 15, 30, 60, 120, 180, 360, 720, 1440, 2880, 7200, 10080, 20160, 43200, 86400, 129600].map((m) => m * MINUTE);

// Whole steps back from `end`, with their names: −6 h, −2 d, now.
export function timeTicks(start, end, most) {
  const step = STEPS.find((s) => (end - start) / s <= most) ?? Math.ceil((end - start) / most / DAY) * DAY;
  const [unit, name] = step % DAY === 0 ? [DAY, "d"] : step % HOUR === 0 ? [HOUR, "h"] : [MINUTE, "min"];
  const ticks = [];
  for (let back = 0; end - back >= start - 1; back += step) {
    ticks.push([end - back, back === 0 ? "now" : `\u2212${number(back / unit)}\u202f${name}`]);
  }
  return ticks;
}

export function scale(from, to, low, high) {
  const ratio = (high - low) / (to - from || 1);
  return (x) => low + (x - from) * ratio;
}

const at = (x) => x.toFixed(1);

// Grid lines, axis labels, and the two scales. The size is the container's, so that text keeps its own.
export function frame(node, { start, end, low, high, ticks, right = MARGIN.right }) {
  const width = Math.max(220, node.clientWidth);
  const height = Math.max(120, node.clientHeight);
  const x = scale(start, end, MARGIN.left, width - right);
  const y = scale(low, high, height - MARGIN.bottom, MARGIN.top);
  const step = stepOf(ticks);
  const drawing = svg("svg", { width, height, viewBox: `0 0 ${width} ${height}`, "aria-hidden": "true" });
  for (const tick of ticks) {
    drawing.append(
      svg("line", { class: tick === 0 ? "grid zero" : "grid", x1: MARGIN.left, x2: width - right, y1: at(y(tick)), y2: at(y(tick)) }),
      svg("text", { class: "tick", x: MARGIN.left - 7, y: at(y(tick)), dy: "0.33em", "text-anchor": "end" }, tickText(tick, step)),
    );
  }
  for (const [when, name] of timeTicks(start, end, Math.max(2, Math.floor((width - MARGIN.left - right) / 74)))) {
    const place = x(when);
    const anchor = name === "now" ? "end" : place < MARGIN.left + 18 ? "start" : "middle";
    drawing.append(
      svg("line", { class: "notch", x1: at(place), x2: at(place), y1: height - MARGIN.bottom, y2: height - MARGIN.bottom + 4 }),
      svg("text", { class: "tick", x: at(place), y: height - 7, "text-anchor": anchor }, name),
    );
  }
  return { drawing, x, y, width, height, right };
}

export const span = (measured, places) =>
  measured ? `${number(measured.value, places)} (${number(measured.low, places)} to ${number(measured.high, places)})` : NONE;
