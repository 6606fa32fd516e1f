// The types as a user meets them; checked by `tsc`, not run.
import { Client, DecideRequest, Scorer, ScorerError, ServiceProblem, UnreachableError } from "sparing";
import type { Decision, RewardAnswer } from "sparing";

const client = new Client("http://127.0.0.1:8321", "banners", { key: "k", timeoutMs: 200, fallback: "plain", retries: 1, fetch });

export async function visit(): Promise<RewardAnswer | null> {
  const decision: Decision = await client.decide(
    { age: 31, country: "NZ", member: null, prompt: [0.1, 0.2] },
    { eligible: ["red"], contextId: 7, subject: "s", requestId: "r", explain: true, costs: { red: 0.1 } },
  );
  if (decision.also) await client.reward(decision.also, 1);
  // @ts-expect-error a reward is a number
  await client.reward(decision, "1");
  // @ts-expect-error the column of a decision is misspelt
  decision.needsReward;
  return client.reward(decision, 1, { action: "red", rewardId: "order 7" });
}

export async function batch(): Promise<number> {
  const answers = await client.decideMany([{ age: 1 }, new DecideRequest([1, 2], { subject: "s" })]);
  const good = answers.filter((each): each is Decision => !(each instanceof ServiceProblem));
  await client.rewardMany(good.map((each) => [each, 1] as const));
  await client.correct(good[0], 0);
  let worth = 0;
  for await (const ask of client.queue({ after: 0 })) {
    worth += ask.worth ?? 0;
    await client.reward(ask, 1);
  }
  for await (const record of client.decisions({ after: 0 })) record.decision_id;
  return worth;
}

const scorer = new Scorer(await (await fetch("policy.json")).json());
const local = new Client("", "banners", { fallback: (context) => scorer.action(context) });

export function score(): unknown {
  try {
    const scores: Float64Array = scorer.scores({ seen_at: new Date(), age: 1n });
    return [scores, scorer.probabilities([1, 2]), scorer.action([1], () => 0.5), scorer.actions[0], scorer.temperature, local];
  } catch (error) {
    if (error instanceof ScorerError || error instanceof UnreachableError) return error.message;
    // @ts-expect-error there is no such error
    return error instanceof Client.Missing;
  }
}
