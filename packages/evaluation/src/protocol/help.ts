import { generatingFields, problemFields } from '../sweep/help.ts';

/** A plan, as a file. */
export const protocolExample = `{
  "tasks": "problems.json",
  "models": [{ "name": "embedded", "model": "embedded", "role": "primary" }],
  "budgets": [96],
  "base": "snapkv(window=16) | topK",
  "candidate": "snapkv(window=16) | zScore | diversity(lambda={lambda})",
  "lambdas": [0.5, 1]
}`;

/** Every field of a plan's file, with the values that it may have. */
export const protocolFields = `tasks        ${problemFields}
models       any of { "name": NAME, "model": as --model of kv run, "role": "primary" or "second" }:
               the rule for branches asks of either kind apart
budgets      slots a layer and KV head, from 1
base         the policy to improve on, as --policy has it
candidate    the other, with {lambda} where the weight stands
lambdas      weights to try, from 0
seeds        whole numbers from 0: kv protocol probe takes the first [0, 1, 2]
within       share of the base's mean cache that the candidate's may differ by, to 1 [0.01]
${generatingFields}`;
