export { Client, DecideRequest, ServiceProblem, UnreachableError } from "./client.js";
export { Scorer, ScorerError } from "./scorer.js";
