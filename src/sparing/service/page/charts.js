// Axes, and the two charts over time. Both have a cursor for pointer and keyboard, and a text readout.

import { NONE, clock, decimals, duration, el, fill, grouped, now, number, plural, significant, svg, write } from "./text.js";

export const MARGIN = { top: 10, right: 12, bottom: 26, left: 46 };

// Round numbers from `low` to `high`, about `most` of them.
export function niceTicks(low, high, most) {
  const rough = (high - low || Math.abs(high) || 1) / Math.max(1, most);
  const power = 10 ** Math.floor(Math.log10(rough));
  const step = [1, 2, 2.5, 5, 10].map((m) => m * power).find((s) => s >= rough * 0.999) ?? 10 * power;
  const first = Math.ceil(low / step - 1e-9);
  const count = Math.floor(high / step + 1e-9) - first + 1;
  return Array.from({ length: Math.min(3 * most + 3, Math.max(0, count) || 0) }, (_, n) => (first + n) * step);
}

export const stepOf = (ticks) => (ticks.length > 1 ? ticks[1] - ticks[0] : Math.abs(ticks[0]) || 1);

// The range with a margin on both sides.
export function padded(low, high) {
  const air = 0.03 * (high - low) || 0.1 * Math.abs(high) || 1;
  return [low - air, high + air];
}

export function tickText(value, step) {
  if (value === 0) return "0";
  if (Math.abs(value) >= 1e9) return number(value, -Math.floor(Math.log10(step)));
  const places = [0, 1, 2, 3, 4, 5, 6].find((p) => step * 10 ** p > 0.5 && Math.abs(step * 10 ** p - Math.round(step * 10 ** p)) < 1e-6);
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
  const step = stepOf(ticks);
  const names = ticks.map((tick) => tickText(tick, step));
  const left = Math.min(0.3 * width, Math.max(MARGIN.left, 16 + 6.5 * Math.max(0, ...names.map((name) => name.length))));
  const x = scale(start, end, left, width - right);
  const y = scale(low, high, height - MARGIN.bottom, MARGIN.top);
  const drawing = svg("svg", { width, height, viewBox: `0 0 ${width} ${height}`, "aria-hidden": "true" });
  for (const [index, tick] of ticks.entries()) {
    drawing.append(
      svg("line", { class: tick === 0 ? "grid zero" : "grid", x1: at(left), x2: width - right, y1: at(y(tick)), y2: at(y(tick)) }),
      svg("text", { class: "tick", x: at(left - 7), y: at(y(tick)), dy: "0.33em", "text-anchor": "end" }, names[index]),
    );
  }
  for (const [when, name] of timeTicks(start, end, Math.max(2, Math.floor((width - left - right) / 74)))) {
    const place = x(when);
    const anchor = name === "now" ? "end" : place < left + 18 ? "start" : "middle";
    drawing.append(
      svg("line", { class: "notch", x1: at(place), x2: at(place), y1: height - MARGIN.bottom, y2: height - MARGIN.bottom + 4 }),
      svg("text", { class: "tick", x: at(place), y: height - 7, "text-anchor": anchor }, name),
    );
  }
  return { drawing, x, y, width, height, right };
}

export const span = (measured, places) =>
  measured ? `${number(measured.value, places)} (${number(measured.low, places)} to ${number(measured.high, places)})` : NONE;

// A chart in `figure`: [data-plot] is drawn in, [data-legend] and [data-readout] are written to.
class Chart {
  constructor(figure) {
    this.plot = figure.querySelector("[data-plot]");
    this.legend = figure.querySelector("[data-legend]");
    this.readout = figure.querySelector("[data-readout]");
    this.cursor = null;
    new ResizeObserver(() => this.draw()).observe(this.plot);
    this.plot.addEventListener("pointermove", (event) => this.point(event));
    this.plot.addEventListener("pointerdown", (event) => this.point(event));
    this.plot.addEventListener("pointerleave", () => this.move(null));
    this.plot.addEventListener("blur", () => this.move(null));
    this.plot.addEventListener("keydown", (event) => this.press(event));
  }

  show(overview) {
    this.data = this.prepare(overview);
    this.draw();
  }

  draw() {
    if (!this.data || this.plot.clientWidth === 0) return;
    this.plot.classList.toggle("nothing", this.data.points.length === 0);
    if (this.data.points.length === 0) {
      this.plot.removeAttribute("tabindex");
      this.plot.setAttribute("aria-label", this.data.nothing);
      fill(this.plot, el("p", { class: "empty" }, this.data.nothing));
      fill(this.legend);
      write(this.readout, "");
      return;
    }
    this.plot.tabIndex = 0;
    this.plot.setAttribute("aria-label", this.data.summary);
    this.frame = this.paint();
    this.mark = svg("line", { class: "cursor", y1: MARGIN.top, y2: this.frame.height - MARGIN.bottom });
    this.frame.drawing.append(this.mark);
    this.plot.replaceChildren(this.frame.drawing);
    fill(this.legend, ...this.data.legend());
    this.move(this.cursor);
  }

  point(event) {
    if (!this.frame || !this.data.points.length) return;
    const place = event.clientX - this.plot.getBoundingClientRect().left;
    const distances = this.data.points.map((point) => Math.abs(this.frame.x(point.middle) - place));
    this.move(this.data.points[distances.indexOf(Math.min(...distances))].key);
  }

  press(event) {
    const jumps = { ArrowLeft: -1, ArrowRight: 1, Home: -1e9, End: 1e9 };
    if (event.key === "Escape") this.move(null);
    if (!(event.key in jumps) || !this.data.points.length) return;
    event.preventDefault();
    const last = this.data.points.length - 1;
    const here = this.data.points.findIndex((point) => point.key === this.cursor);
    const next = here < 0 ? last : Math.min(last, Math.max(0, here + jumps[event.key]));
    this.move(this.data.points[next].key);
  }

  move(key) {
    this.cursor = key;
    const point = this.data?.points.find((candidate) => candidate.key === key);
    write(this.readout, point ? this.data.say(point) : this.data?.note ?? "");
    if (!this.mark) return;
    this.mark.classList.toggle("on", Boolean(point));
    if (point) {
      this.mark.setAttribute("x1", at(this.frame.x(point.middle)));
      this.mark.setAttribute("x2", at(this.frame.x(point.middle)));
    }
  }
}

const key = (kind, name, hint) => el("span", { class: "key", title: hint }, el("i", { class: `swatch ${kind}` }), name);

export const stepName = (seconds) =>
  ({ 60: "minute", 3600: "hour", 86400: "day", 604800: "week" })[seconds] ?? duration(seconds);

export class Stacked extends Chart {
  prepare({ hours, step }) {
    const all = new Map();
    for (const hour of hours) {
      for (const [reason, n] of Object.entries(hour.decisions)) all.set(reason, (all.get(reason) ?? 0) + n);
    }
    const series = grouped(all);
    const moment = now();
    const points = hours.map(({ start, decisions }) => {
      const stop = Math.max(Math.min(start + step, moment), start + 1);
      const counts = new Map(grouped(Object.entries(decisions)).map((group) => [group.key, group.decisions]));
      const total = [...counts.values()].reduce((sum, n) => sum + n, 0);
      return { key: start, start, stop, middle: (start + stop) / 2, counts, total, over: start + step <= moment };
    });
    const partial = points.some((point) => !point.over);
    const total = points.reduce((sum, point) => sum + point.total, 0);
    return {
      series,
      points,
      nothing: "No decision yet.",
      note: partial ? `Paler: the present ${stepName(step)}. Point at the chart for numbers.` : "Point at the chart for numbers.",
      summary:
        `Decisions per ${stepName(step)} by reason, ${plural(total, "decision")} in ${plural(points.length, "step")}: ` +
        series.map((group) => `${group.name} ${number(group.decisions)}`).join(", ") +
        ". Use the arrow keys to read one step at a time.",
      legend: () => series.map((group) => key(group.key, group.name, group.reasons.join(", "))),
      say: (point) =>
        `${clock(point.start)}${point.over ? "" : " (incomplete)"}: ` +
        series.map((group) => `${group.name} ${number(point.counts.get(group.key) ?? 0)}`).join(" · "),
    };
  }

  paint() {
    const { points, series } = this.data;
    const top = Math.max(1, ...points.map((point) => point.total));
    const ticks = niceTicks(0, top, Math.max(2, this.plot.clientHeight / 45)).filter((tick) => Number.isInteger(tick));
    const drawn = frame(this.plot, { start: points[0].start, end: Math.max(now(), points.at(-1).stop), low: 0, high: top * 1.04, ticks });
    const thin = drawn.x(points[0].stop) - drawn.x(points[0].start) < 6 ? " thin" : "";
    const base = new Map(points.map((point) => [point.key, 0]));
    for (const group of series) {
      for (const over of [true, false]) {
        let path = "";
        for (const point of points) {
          const n = point.counts.get(group.key) ?? 0;
          if (point.over !== over || n === 0) continue;
          const low = base.get(point.key);
          base.set(point.key, low + n);
          const [left, right] = [drawn.x(point.start), drawn.x(point.stop)];
          path += `M${at(left)} ${at(drawn.y(low))}V${at(drawn.y(low + n))}H${at(right)}V${at(drawn.y(low))}Z`;
        }
        if (path) drawn.drawing.append(svg("path", { class: `area ${group.key}${thin}${over ? "" : " partial"}`, d: path }));
      }
    }
    return drawn;
  }
}

const quantile = (sorted, share) => sorted[Math.min(sorted.length - 1, Math.floor(share * sorted.length))];

export class Bands extends Chart {
  prepare({ so_far: points }) {
    const measured = points.filter((point) => point.policy || point.holdout);
    const lines = ["policy", "holdout"].filter((name) => measured.some((point) => point[name]));
    const names = { policy: "this policy", holdout: "holdout" };
    const last = measured.at(-1);
    const widths = lines.map((name) => last[name]).filter(Boolean).map((m) => (m.high - m.low) / 2);
    const places = Math.min(4, decimals(Math.min(...widths, 1), 2));
    return {
      lines,
      places,
      points: measured.map((point) => ({ key: point.end, middle: point.end, ...point })),
      nothing: "No reward has been measured yet.",
      note: "Mean of all rewards up to a time. Point at the chart for numbers.",
      summary: last
        ? `Mean reward so far with its 95 % interval, which holds at every look. At the end: ${lines.map((name) => `${names[name]} ${span(last[name], places)}`).join(", ")}. Use the arrow keys to read one time at a time.`
        : "",
      legend: () => [
        ...lines.map((name) => key(name, names[name])),
        lines.length === 1 && el("span", { class: "key dim" }, `${lines[0] === "policy" ? "holdout" : "this policy"}: not measured`),
      ],
      say: (point) => `until ${clock(point.end)}: ${lines.map((name) => `${names[name]} ${span(point[name], places)}`).join(" · ")}`,
    };
  }

  // Covers all means and all but the widest intervals, which are cut off; the readout has their numbers.
  range() {
    const found = this.data.points.flatMap((point) => this.data.lines.map((name) => point[name]).filter(Boolean));
    const lows = found.map((m) => m.low).sort((a, b) => a - b);
    const highs = found.map((m) => m.high).sort((a, b) => a - b);
    const means = found.map((m) => m.value);
    return [Math.min(...means, quantile(lows, 0.02)), Math.max(...means, quantile(highs, 0.98))];
  }

  paint() {
    const { points, lines } = this.data;
    const [low, high] = padded(...this.range());
    const ticks = niceTicks(low, high, Math.max(2, this.plot.clientHeight / 45));
    const before = points.length > 1 ? points[0].end : points[0].end - 3600;
    const tips = lines.map((name) => points.filter((point) => point[name]).at(-1)).map((tip, index) => significant(tip[lines[index]].value, 3));
    const right = Math.max(52, 14 + 7 * Math.max(...tips.map((tip) => tip.length)));
    const drawn = frame(this.plot, { start: before, end: Math.max(now(), points.at(-1).end), low, high, ticks, right });
    const { x, drawing, width, height } = drawn;
    const y = (value) => Math.min(height - MARGIN.bottom, Math.max(MARGIN.top, drawn.y(value)));
    const ends = [];
    for (const name of lines) {
      const here = points.filter((point) => point[name]);
      const up = here.map((p) => `${at(x(p.end))} ${at(y(p[name].high))}`);
      const down = here.map((p) => `${at(x(p.end))} ${at(y(p[name].low))}`).reverse();
      const line = here.map((p) => `${at(x(p.end))} ${at(y(p[name].value))}`);
      drawing.append(svg("path", { class: `band ${name}`, d: `M${[...up, ...down].join("L")}Z` }));
      drawing.append(svg("path", { class: `line ${name}`, d: `M${line.join("L")}` }));
      const tip = here.at(-1);
      drawing.append(svg("circle", { class: `tip ${name}`, cx: at(x(tip.end)), cy: at(y(tip[name].value)), r: 3 }));
      ends.push([y(tip[name].value), name, significant(tip[name].value, 3)]);
    }
    ends.sort((a, b) => a[0] - b[0]);
    if (ends.length === 2 && ends[1][0] - ends[0][0] < 14) {
      const middle = (ends[0][0] + ends[1][0]) / 2;
      [ends[0][0], ends[1][0]] = [middle - 7, middle + 7];
    }
    for (const [place, name, text] of ends) {
      drawing.append(svg("text", { class: `end ${name}`, x: at(width - right + 6), y: at(place), dy: "0.33em" }, text));
    }
    return drawn;
  }
}
