// Scores rows with an exported policy: `node score.mjs INDEX_JS FOLDER`. Reads policy.json and rows.json, writes scored.json.
import { readFileSync, writeFileSync } from "node:fs";
import { pathToFileURL } from "node:url";

const [, , home, folder] = process.argv;
const { Scorer } = await import(pathToFileURL(home).href);
const scorer = new Scorer(readFileSync(`${folder}/policy.json`, "utf8"));
const rows = JSON.parse(readFileSync(`${folder}/rows.json`, "utf8"));
const bytes = (arrays) => Buffer.concat(arrays.map((array) => Buffer.from(array.buffer, array.byteOffset, array.byteLength))).toString("base64");
const contexts = rows.map((row) => scorer.encode(row));
writeFileSync(
  `${folder}/scored.json`,
  JSON.stringify({
    contexts: bytes(contexts),
    scores: bytes(contexts.map((x) => scorer.scores(x))),
    probabilities: bytes(contexts.map((x) => scorer.probabilities(x))),
    actions: rows.map((row, i) => scorer.action(i % 10 ? contexts[i] : row, () => 0.5)),
  }),
);
