// Elements made of text and attributes. Nothing is ever parsed as markup: what the server says stays text.

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
