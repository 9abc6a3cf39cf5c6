import { count, maybe, object, required, value } from '@kv/core';
import { budgetOption, policyOption } from '@kv/core/engine';
import type { Backend, OptionValues, Policy } from '@kv/core';
import type { GraphSource } from './source.ts';
import type { Decodes } from './text.ts';

export const WITH_POLICY = {
  policy: required(policyOption<Policy | string>("A policy, or its text, such as 'attendedSentences'.")),
  budget: budgetOption('Slots per layer and KV head, or a share of the prompt such as 25%.'),
  block: maybe(
    count(1, 'tokens', 'Prefill in blocks of this many tokens, each followed by an event.'),
    'the whole prompt',
  ),
  every: maybe(
    count(1, 'tokens', 'Generated tokens between two events.'),
    "the policy's own cadence, else none after the prompt",
  ),
  tokenizer: maybe(
    value(
      'a tokenizer of transformers.js',
      'Tokenizer, needed by policies that read text.',
      (x): x is Decodes => typeof (x as Decodes | null)?.decode === 'function',
    ),
    'that of `source`, if it is a name or a folder',
  ),
  source: value(
    'a folder, a name of the hub, a URL, bytes, or one of them with load options',
    'Where the model was loaded from, and its load options. Needed by policies that read queries: a graph that outputs them is made from it.',
    (x): x is GraphSource => typeof x === 'string' || (typeof x === 'object' && x !== null),
  ),
  backend: object<Backend>('a backend', 'Backend that runs the pieces.', 'the CPU'),
};
/** Options of `withPolicy`. */
export interface WithPolicyOptions extends OptionValues<typeof WITH_POLICY> {}
