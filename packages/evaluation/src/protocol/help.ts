import type { Branch } from './statistics.ts';
import { generationHelp, problemFields } from '../sweep/help.ts';

/** An example of a plan file. */
export const protocolExample = `{
  "tasks": "problems.json",
  "models": [{ "name": "embedded", "model": "embedded", "role": "primary" }],
  "budgets": [96],
  "base": "alpha(lambda=0,window=16)",
  "candidate": "alpha(lambda={lambda},window=16)",
  "lambdas": [0.5, 1]
}`;

/** The meaning of each branch of the decision rule. */
export const branchMeanings: Readonly<Record<Branch, string>> = {
  A: 'the claim holds: a primary cell gains (p < .05), second cells gain on average, and none of them loses (p < .05)',
  B: 'the claim holds on primary models alone: a primary cell gains (p < .05), but second cells do not gain on average, one of them loses (p < .05), or there are none',
  C: 'no claim: no primary cell gains (p < .05)',
};

/** The precondition of every branch. */
export const branchGate =
  'No branch is said while the mean caches of a cell are not matched: memory may be what makes the difference.';

/** Every field of a plan file, with its possible values. */
export const protocolFields = `tasks         ${problemFields}
models        any of { "name": NAME, "model": as --model of kv run, "role": "primary" or "second" }: the rule for branches asks of either kind apart; one model under two names is refused
budgets       slots a layer and KV head, from 1
base          the policy to improve on, as --policy has it
candidate     the other, with {lambda} where the weight stands
lambdas       weights to try, from 0
seeds         whole numbers from 0: kv protocol probe takes the first [0, 1, 2]
cache         how caches are stored: f32, f16, q8, k8v4 or q4 [f32]
within        share of the base's mean cache that the candidate's may differ by, to .05 [0.01]
${generationHelp}`;
