// Cases of the client's tests: `node client.mjs INDEX_JS CASE URL`. Prints the results as JSON; `lives` reads lines and answers each.
import { createInterface } from "node:readline";
import { pathToFileURL } from "node:url";

const [, , home, name, url] = process.argv;
const { Client, DecideRequest, ServiceProblem, UnreachableError } = await import(pathToFileURL(home).href);
const PATIENT = { timeoutMs: 20_000 };
const VISIT = { age: 31, device: "phone" };

async function refusal(promise) {
  try {
    return await promise;
  } catch (error) {
    if (error instanceof ServiceProblem) return { status: error.status, code: error.code, field: error.field, detail: error.detail };
    if (error instanceof UnreachableError) return { unreachable: error.message };
    throw error;
  }
}

const cases = {
  async round() {
    const client = new Client(`${url}/`, "banners", PATIENT);
    const first = await client.decide(VISIT, { requestId: "visit.1/ü" });
    const again = await client.decide(VISIT, { requestId: "visit.1/ü" });
    const chosen = await client.decide(VISIT, { eligible: ["red"], contextId: "page", subject: "someone", explain: true, costs: { red: 0.25 } });
    const rewards = [await client.reward(first, 1), await client.reward("visit.1/ü", 1), await refusal(client.reward(first, 0))];
    const records = [];
    for await (const record of client.decisions()) records.push(record.decision_id);
    return { first, again, chosen, rewards, records, about: (await client.about()).name, refused: await refusal(client.decide({ age: 31 })) };
  },

  async batches() {
    const client = new Client(url, "banners", PATIENT);
    const contexts = Array.from({ length: 1500 }, (_, i) => ({ age: 20 + (i % 50), device: "phone" }));
    contexts[7] = { age: "old", device: "phone" };
    contexts[8] = new DecideRequest(VISIT, { requestId: "own", eligible: ["blue"] });
    const answers = await client.decideMany(contexts);
    const good = answers.filter((each) => !(each instanceof ServiceProblem));
    const fallback = await new Client("http://127.0.0.1:9", "banners", { fallback: "red", retries: 0 }).decide(VISIT);
    const rewards = await client.rewardMany([[good[0], 1], ["nothing", 1], [fallback, 1], [good[1].decision_id, 0]]);
    return {
      answers: answers.length,
      problems: answers.filter((each) => each instanceof ServiceProblem).map((each) => [each.status, each.code]),
      distinct: new Set(good.map((each) => each.decision_id)).size,
      own: answers[8].action,
      rewards: rewards.map((each) => (each instanceof ServiceProblem ? each.code : each && each.status)),
      fallback: [fallback, await client.reward(fallback, 1)],
    };
  },

  async lost() {
    const sent = [];
    let lost = 2;
    const client = new Client(url, "banners", {
      ...PATIENT,
      async fetch(address, given) {
        sent.push(given.body);
        const response = await fetch(address, given);
        if (lost-- > 0) throw new TypeError("the answer was lost");
        return response;
      },
    });
    const made = async () => {
      const ids = [];
      for await (const record of new Client(url, "banners", PATIENT).decisions()) ids.push(record.decision_id);
      return ids;
    };
    const before = (await made()).length;
    const answer = await client.decide(VISIT);
    return { ids: sent.map((body) => JSON.parse(body).request_id), answer, made: (await made()).slice(before) };
  },

  async parts() {
    let lost = 0;
    const client = new Client(url, "banners", {
      ...PATIENT,
      async fetch(address, given) {
        const response = await fetch(address, given);
        if (lost-- > 0) throw new TypeError("the answer was lost");
        return response;
      },
    });
    const decision = await client.decide(VISIT);
    lost = 2;
    const answers = [await client.reward(decision, 0.25)];
    lost = 1;
    answers.push(...(await client.rewardMany([[decision, 0.125]])));
    for (const value of [0.5, 0.5]) answers.push(await client.reward(decision, value, { rewardId: "order 7" }));
    return answers.map((each) => each.status);
  },

  async shadow() {
    const client = new Client(url, "banners", PATIENT);
    const also = [];
    for (let i = 0; i < 60; i++) {
      const decision = await client.decide({ age: 20 + i, device: ["phone", "tablet"][i % 2] });
      if (decision.also) also.push({ ...decision.also, served: decision.decision_id });
    }
    const queued = [];
    for await (const ask of client.queue()) queued.push(ask);
    const shadows = queued.filter((ask) => ask.served_id);
    const rewards = [await client.reward(also[0], 1), ...(await client.rewardMany(shadows.slice(1).map((ask) => [ask, 0.5])))];
    const left = [];
    for await (const ask of client.queue()) if (ask.served_id) left.push(ask);
    return { also, shadows, rewards: rewards.map((each) => each.status), left };
  },

  async silent() {
    const started = Date.now();
    const client = new Client(url, "banners", { timeoutMs: 100, retries: 1, key: "secret" });
    const error = await refusal(client.decide(VISIT));
    const taken = Date.now() - started;
    const chosen = await client.decide(VISIT, { fallback: async (context) => (context.age > 30 ? "old" : "young") });
    return { error, taken, chosen: chosen.action, other: await refusal(client.reward("some", 1, { timeoutMs: 50 })) };
  },

  async key() {
    const asked = { ...PATIENT, key: process.env.KEY };
    const keyless = await refusal(new Client(url, "banners", { ...PATIENT, fallback: "red" }).decide(VISIT));
    return [keyless, (await new Client(url, "banners", asked).decide(VISIT)).action];
  },

  async lives() {
    const client = new Client(url, "banners", { timeoutMs: 1000, fallback: "plain" });
    for await (const line of createInterface({ input: process.stdin })) {
      const { action, decision_id, reason } = await client.decide(VISIT, { requestId: line });
      console.log(JSON.stringify({ action, decision_id, reason }));
    }
  },
};

const result = await cases[name]();
if (result !== undefined) console.log(JSON.stringify(result));
