import { entries, KvError, parsePolicy } from '@kv/core';
import { allowanceOf, compile, expectBudget, withProtected } from '@kv/core/engine';
import type { Policy, Registry, SlotBytes, PositionSpan } from '@kv/core';
import type { CompiledPolicy } from '@kv/core/engine';
import { policySizes } from '@kv/engine';
import type { Budget, Model, SamplerOptions } from '@kv/models';
import type { SequencePolicy } from '../run/sequence-policy.ts';
import { POLICY } from '../options.ts';
import type { AskTerms } from './ask.ts';
import { Refusal } from './refusal.ts';

/** Defaults for fields that a request leaves out. */
export interface Defaults {
  readonly policy?: Policy | undefined;
  readonly budget?: Budget | undefined;
  readonly block?: number | undefined;
  readonly every?: number | undefined;
  /** How tokens are drawn. */
  readonly sampling: SamplerOptions;
  /** Whether requests may not override them. */
  readonly fixed: boolean;
  /** Pieces that a request's policy may name. */
  readonly registry: Registry;
}

/** Returns a registry without the pieces that take a regular expression, since a client's could run for ever. */
export const clientRegistry = (registry: Registry): Registry => {
  const safe = entries(registry).filter(({ factory: { description } }) =>
    Object.values(description.options).every(({ form }) => form.want !== 'a regular expression'),
  );
  const all = new Map<string, (typeof safe)[number][]>();
  for (const entry of safe) {
    const { name } = entry.factory.description;
    all.set(name, [...(all.get(name) ?? []), entry]);
  }
  return all;
};

const EXTENSIONS = Object.keys(POLICY) as readonly (keyof typeof POLICY)[];

/**
 * Returns the policy of a request's sequences, with defaults applied. @throws Refusal or KvError naming the invalid
 * field
 */
export function sequencePolicyOf(
  request: Pick<AskTerms, keyof typeof POLICY>,
  defaults: Defaults,
  { config, cacheForm }: Pick<Model, 'config' | 'cacheForm'>,
): SequencePolicy & { readonly of: Policy | undefined } {
  const asked = EXTENSIONS.find((field) => request[field] !== undefined);
  if (defaults.fixed && asked !== undefined)
    throw new Refusal(`'${asked}' is fixed by the operator of this server`, { param: asked, code: 'fixed_policy' });
  const text = request.policy,
    of = text === undefined ? defaults.policy : namedPolicy(text, defaults.registry),
    same = text === undefined;
  const policy = of && compile(of),
    budget = request.budget ?? defaults.budget,
    block = request.block ?? (same ? defaults.block : undefined),
    every = request.every ?? (same ? defaults.every : undefined);
  for (const field of EXTENSIONS)
    if (field !== 'policy' && request[field] !== undefined && !policy?.evicts)
      throw new Refusal(`'${field}' is expected with a policy that evicts, got none`, { param: field });
  if (!policy) return { of };
  const sizes = policySizes(config, cacheForm, policy),
    { maxPositions } = config;
  expectAllowed(policy, budget, sizes);
  if (typeof budget === 'number' && budget > maxPositions)
    throw new Refusal(`'budget' must be at most the ${maxPositions} slots of the model's context, got ${budget}`, {
      param: 'budget',
    });
  return { of, policy, ...(policy.evicts && { budget, sizes, block, every }) };
}

/** @throws Refusal for a budget that is missing, invalid, or that the policy can never keep */
function expectAllowed(policy: CompiledPolicy, budget: Budget | undefined, sizes: SlotBytes): void {
  try {
    expectBudget(policy, budget, { at: "'budget'", sizes });
  } catch (cause) {
    throw KvError.is(cause) ? new Refusal(cause.message, { param: 'budget' }) : cause;
  }
}

/**
 * @param asked whether the request protects something, and not the server alone
 * @throws Refusal where a prompt's budget cannot hold what is protected of it, in addition to what the policy forces
 */
export function expectHeld(
  { policy, budget, sizes }: SequencePolicy,
  spans: readonly PositionSpan[],
  tokens: number,
  asked: boolean,
): void {
  if (!policy?.evicts || budget === undefined || spans.length === 0) return;
  try {
    allowanceOf(withProtected(policy, spans), budget, tokens, { sizes });
  } catch (cause) {
    if (!KvError.is(cause)) throw cause;
    const why = cause.message.replace(/^budget: /, '');
    throw asked
      ? new Refusal(why, { param: 'kv.protect' })
      : new Refusal(`what this server protects in every conversation does not fit: ${why}`);
  }
}

function namedPolicy(text: string, registry: Registry): Policy | undefined {
  if (text.trim() === '' || text.trim() === 'full') return undefined;
  try {
    return parsePolicy(text, registry);
  } catch (cause) {
    if (!KvError.is(cause)) throw cause;
    throw new Refusal(`'policy' cannot be read: ${cause.message}`, { param: 'policy' });
  }
}

/** Returns the most new tokens of an answer where `most` may be asked for. @throws Refusal for more */
export function newTokensOf({ maxNewTokens: asked, usualNewTokens, names }: AskTerms, most: number): number {
  const { maxNewTokens: param } = names;
  if (asked !== undefined && asked > most)
    throw new Refusal(`'${param}' must be at most ${most} here, got ${asked}`, { param });
  return asked ?? Math.min(usualNewTokens, most);
}

/** @throws Refusal for a model other than the served one */
export function expectModel(asked: string | undefined, name: string): void {
  if (asked !== undefined && asked !== name)
    throw new Refusal(`the model '${asked}' is not here: expected '${name}'`, {
      status: 404,
      param: 'model',
      code: 'model_not_found',
    });
}
