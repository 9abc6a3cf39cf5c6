import { KvError } from '@kv/core';
import { settleOwn } from '@kv/core/engine';
import type { Policy } from '@kv/core';
import { AutoTokenizer } from '@huggingface/transformers';
import type { PreTrainedModel } from '@huggingface/transformers';
import { demandsOf } from './demands.ts';
import type { EventPlan } from './event.ts';
import type { InnerModel } from './inputs.ts';
import { WITH_POLICY, type WithPolicyOptions } from './options.ts';
import { PolicyEngine } from './policy-engine.ts';
import type { PolicyModel } from './policy-model.ts';
import { ropeOf } from './rope.ts';
import { shapeOf } from './shape.ts';
import { queryGraph, type GraphSource } from './source.ts';
import type { Decodes } from './text.ts';

/**
 * Wraps a loaded model so that a policy keeps its caches within a budget. `generate`, pipelines and streamers use it
 * unchanged, and `model` itself is not modified.
 * @param model a causal model that transformers.js has loaded
 * @returns the model with `stats`, `evict` and the policy's caches
 * @throws KvError for a model that has not only attention caches, and for a policy that needs what this engine does not
 * provide.
 * @example
 * ```ts
 * const bounded = await withPolicy(model, { policy: 'taFast(reach=12,slots=24)', budget: 1024, tokenizer });
 * await bounded.generate(inputs); // as `model.generate`
 * ```
 */
export async function withPolicy<M extends object = PreTrainedModel>(
  model: M,
  options: WithPolicyOptions,
): Promise<PolicyModel<M>> {
  const { budget, block, every, tokenizer, source, backend, ...given } = settleOwn('withPolicy', WITH_POLICY, options),
    policy = await policyOf(given.policy);
  const inner = model as unknown as InnerModel,
    shape = shapeOf(inner),
    demands = demandsOf(policy, budget, shape, {
      queries: source !== undefined,
      text: tokenizer !== undefined || nameOf(source) !== undefined,
    }),
    reader = demands.text ? (tokenizer ?? (await tokenizerOf(source))) : undefined;
  const graph = demands.window > 0 && source !== undefined ? await queryGraph(source, inner, shape) : undefined,
    turns = demands.rope || shape.fromMask,
    plan: EventPlan = {
      policy,
      demands,
      shape,
      rope: turns ? ropeOf(inner.config, shape.headDim) : undefined,
      backend,
    };
  if (shape.fromMask && shape.type !== 'float32')
    throw new KvError('withPolicy', `expected a cache of float32, whose kept keys can be turned, got ${shape.type}`);
  const engine = new PolicyEngine(inner, plan, {
    budget: budget ?? '100%',
    block: block ?? demands.compiled.hooks('cadence')[0]?.block,
    every: every ?? demands.compiled.hooks('cadence')[0]?.every,
    reader,
    ...(graph && { graph }),
  });
  return engine.model as PolicyModel<M>;
}

/** Returns the policy, parsed if it is text; the catalogue is loaded only for text. */
const policyOf = async (policy: Policy | string): Promise<Policy> =>
  typeof policy === 'string' ? (await import('@kv/policies')).policy(policy) : policy;

/** Returns the folder or name of a source. */
const nameOf = (source: GraphSource | undefined): string | undefined => {
  const model = source instanceof Uint8Array || typeof source === 'string' ? source : source?.model;
  return typeof model === 'string' ? model : undefined;
};

async function tokenizerOf(source: GraphSource | undefined): Promise<Decodes | undefined> {
  const name = nameOf(source),
    options = typeof source === 'object' && !(source instanceof Uint8Array) ? { ...source, model: undefined } : {};
  return name === undefined ? undefined : AutoTokenizer.from_pretrained(name, options);
}
