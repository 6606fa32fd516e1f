/** A label of an action. */
export type Label = string | number | boolean;

/** A cell of a raw column; null if it is missing. Lists are for columns of vectors. */
export type Cell = string | number | boolean | null | ArrayLike<number>;

/** A context: raw columns by name, or the numbers of an encoded context. */
export type Context = Readonly<Record<string, Cell>> | ArrayLike<number>;

/** A context for a scorer, which also reads dates. */
export type Row = Readonly<Record<string, Cell | Date | bigint>> | ArrayLike<number>;

/** What an explanation says of one raw column. */
export interface Contribution {
  column: string;
  kind: string;
  value: boolean | number | string | null;
  amount: number;
  gap: number | null;
  note: string;
  words: { word: string; amount: number; gap: number | null }[];
}

/** Why an action has its estimate: `base` and the amounts sum to `estimate`. */
export interface Explanation {
  action: Label;
  against: Label | null;
  estimate: number;
  gap: number | null;
  base: number;
  base_gap: number | null;
  contributions: Contribution[];
  rows: number;
  model_seq: number;
}

/** A further action to run in the same context and to show to nobody; its reward is sent to its own id. */
export interface ShadowCall {
  decision_id: string;
  action: Label;
  worth: number | null;
  reward_by?: string | null;
}

/** The answer to a context. The fields have the names of the service's messages. */
export interface Decision {
  /** Empty for the client's own fallback, which takes no reward. */
  decision_id: string;
  action: Label;
  needs_reward: boolean;
  reason: string;
  play_probability: number;
  call_probability: number;
  /** The mean reward less the known cost; null for the client's own fallback. From `low` to `high` is its 95 % interval. */
  value: number | null;
  low: number | null;
  high: number | null;
  worth: number | null;
  arm: string;
  model_seq: number;
  reward_by: string | null;
  explanation?: Explanation;
  cost?: number;
  also?: ShadowCall;
}

/** What the service did with a reward. */
export interface RewardAnswer {
  status: "taken" | "duplicate" | "part" | "unasked" | "corrected";
  seq: number;
}

/** A stored decision, as the service lists it; fields as in its OpenAPI document. */
export type DecisionRecord = Readonly<Record<string, unknown>> & { readonly decision_id: string };

/** A reward that is waited for: judge the outcome of the action in this context, and send the reward to `decision_id`. */
export interface QueuedAsk {
  decision_id: string;
  seq: number;
  time: string;
  context: Record<string, unknown> | number[];
  context_id: string | number | null;
  action: Label;
  worth: number | null;
  reason: string;
  arm: string;
  /** Of a shadow call: the decision that was served in its context. */
  served_id: string | null;
  reward_by: string | null;
}

export type Fallback = Label | ((context: Context) => Label | Promise<Label>);

export interface ClientSettings {
  /** An API key with the role `write`. Do not put one into a public page. */
  key?: string;
  /** Milliseconds that one try of a decision may take; 200 by default. No try starts after `timeoutMs` times the number of tries. */
  timeoutMs?: number;
  /** The action to play if the service does not answer in time, or a function of the context that gives it. */
  fallback?: Fallback;
  /** Further tries after the first one; 2 by default. All have one request_id, so a decision is made once. */
  retries?: number;
  /** Sends requests; the global `fetch` by default. */
  fetch?: typeof fetch;
}

export interface DecideSettings {
  /** Actions to choose from; by default all active ones. */
  eligible?: Iterable<Label>;
  /** Id of a context that occurs again. */
  contextId?: string | number;
  /** Who is served: a subject stays in the holdout or out of it. */
  subject?: string;
  /** Repeating one returns the stored decision; by default a new one. */
  requestId?: string;
  /** Whether the answer has an `explanation`. */
  explain?: boolean;
  /** Known costs of playing the actions in this round, by label. */
  costs?: Readonly<Record<string, number>>;
  timeoutMs?: number;
  fallback?: Fallback;
}

export interface CallSettings {
  /** Milliseconds that one try may take. */
  timeoutMs?: number;
}

/** A context with the settings of its decision, for `decideMany`. */
export class DecideRequest {
  constructor(context: Context, settings?: Omit<DecideSettings, "timeoutMs" | "fallback">);
  readonly context: Context;
  readonly settings: DecideSettings;
}

/**
 * A client of one experiment.
 *
 * Every method throws a ServiceProblem if the service refuses the request, and an UnreachableError if it does not answer in time.
 */
export class Client {
  /** `url` is the address of the service, such as http://127.0.0.1:8321; `experiment` is a name. */
  constructor(url: string, experiment: string, settings?: ClientSettings);

  /** Decide in one context; with a fallback, that action instead of an UnreachableError. */
  decide(context: Context, settings?: DecideSettings): Promise<Decision>;

  /** Decide in many contexts: answers in their order, a ServiceProblem for each refused one. */
  decideMany(contexts: Iterable<Context | DecideRequest>, settings?: CallSettings): Promise<(Decision | ServiceProblem)[]>;

  /**
   * Send the reward of a decision, given as the answer, its id or its request_id; null for the client's own fallback.
   * Of a partial reward (`aggregate=sum`), the same `rewardId` counts once; by default a new one for each call.
   */
  reward(
    decision: Decision | ShadowCall | QueuedAsk | string,
    value: number,
    settings?: CallSettings & { action?: Label; rewardId?: string },
  ): Promise<RewardAnswer | null>;

  /** Send the rewards of many decisions: answers in their order, null for each fallback. */
  rewardMany(
    rewards: Iterable<readonly [Decision | ShadowCall | QueuedAsk | string, number]>,
    settings?: CallSettings,
  ): Promise<(RewardAnswer | ServiceProblem | null)[]>;

  /** Replace the mistaken reward of a decision; needs a key with the role `admin`. */
  correct(decision: Decision | string, value: number, settings?: CallSettings): Promise<RewardAnswer>;

  /** The rewards that are waited for, for people or judges; the oldest first, after the event with the number `after`. */
  queue(settings?: CallSettings & { after?: number }): AsyncGenerator<QueuedAsk>;

  /** The present settings and counts of the experiment; fields as in the service's OpenAPI document. */
  about(settings?: CallSettings): Promise<Readonly<Record<string, unknown>>>;

  /** The stored decisions and their outcomes, in order, after the event with the number `after`. */
  decisions(settings?: CallSettings & { after?: number }): AsyncGenerator<DecisionRecord>;
}

/** The service refused a request. */
export class ServiceProblem extends Error {
  /** HTTP status code. */
  readonly status: number;
  /** Stable code of the reason, such as unknown_action. */
  readonly code: string;
  /** A sentence that explains it. */
  readonly detail: string;
  /** Name of the wrong field of the request. */
  readonly field: string | null;
}

/** The service did not answer in time, after all retries. */
export class UnreachableError extends Error {}

/** A policy that `policy.export("json")` of Python's sparing wrote, scored without a service. */
export class Scorer {
  /** `saved` is the JSON: its text, or the object that JSON.parse makes of it. */
  constructor(saved: unknown);

  /** Labels of the actions. */
  readonly actions: readonly (Label | readonly Label[])[];
  /** How the policy was learnt. */
  readonly method: string;
  /** Number of features. */
  readonly size: number;
  /** Null if the best score is played; else probabilities are proportional to exp(score/temperature). */
  readonly temperature: number | null;

  /** The action to play; a policy with a temperature draws it with numbers from 0 to 1 of `random`. */
  action(row: Row, random?: () => number): Label;
  /** The score of each action, less its known cost. */
  scores(row: Row): Float64Array;
  /** The probability of each action. */
  probabilities(row: Row): Float64Array;
  /** The features of a row. */
  encode(row: Row): Float64Array;
}

/** A row that does not fit the policy, or a file that is no policy. */
export class ScorerError extends Error {}
