// Reads cells one by one: `node cells.mjs INDEX_JS FOLDER`. Reads policies.json and cells.json, writes read.json: base64 of the features, or null.
import { readFileSync, writeFileSync } from "node:fs";
import { pathToFileURL } from "node:url";

const [, , home, folder] = process.argv;
const { Scorer, ScorerError } = await import(pathToFileURL(home).href);
const policies = JSON.parse(readFileSync(`${folder}/policies.json`, "utf8"));
const cells = JSON.parse(readFileSync(`${folder}/cells.json`, "utf8"));
const read = {};
for (const [kind, saved] of Object.entries(policies)) {
  const scorer = new Scorer(saved);
  read[kind] = cells[kind].map((given) => {
    const cell = given?.milliseconds === undefined ? given : new Date(given.milliseconds);
    try {
      return Buffer.from(scorer.encode({ cell }).buffer).toString("base64");
    } catch (error) {
      if (error instanceof ScorerError) return null;
      throw error;
    }
  });
}
writeFileSync(`${folder}/read.json`, JSON.stringify(read));
