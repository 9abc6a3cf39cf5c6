import type { Budget } from '@kv/models';
import {
  CACHES,
  DEFAULT,
  DEVICES,
  FORMS,
  LENGTHS,
  letterOf,
  LIMITS,
  MODELS,
  type RunChoice,
  type NeedlePrompt,
  type ModelChoice,
} from './choice.ts';

const keyOf = (side: number): string => letterOf(side).toLowerCase();

/** Encodes a choice as the fragment of an address, without `#`. */
export function writeAddress({
  model,
  source,
  late,
  policies,
  budget,
  maxNewTokens,
  device,
  cache,
}: RunChoice): string {
  const prompt =
    source.kind === 'text'
      ? { text: source.text }
      : { form: source.form, tokens: source.tokens, depth: source.depth, seed: source.seed };
  return new URLSearchParams(
    Object.entries({
      ...(model.kind !== 'embedded' && { [model.kind]: model.name }),
      ...prompt,
      ask: late ? 'late' : 'early',
      ...Object.fromEntries(policies.map((policy, side) => [keyOf(side), policy])),
      ...{ budget, new: maxNewTokens, device, cache },
    }).map(([key, value]) => [key, String(value)]),
  ).toString();
}

/**
 * Decodes a choice from the fragment of an address, with or without `#`; missing and invalid fields take their
 * defaults. A policy may be any text: its field reports errors.
 */
export function readAddress(hash: string): RunChoice {
  const given = new URLSearchParams(hash.replace(/^#/, '')),
    text = given.get('text');
  const policies: string[] = [];
  for (let side = 0; side < LIMITS.policies; side++) {
    const said = given.get(keyOf(side)) ?? '',
      policy = given.has(keyOf(side)) && said.length <= LIMITS.policy ? said : DEFAULT.policies[side];
    if (policy === undefined) break;
    policies.push(policy);
  }
  return {
    model: readModel(given),
    source: text !== null && text.length <= LIMITS.text ? { kind: 'text', text } : example(given),
    late: given.get('ask') === 'late',
    policies,
    budget: readBudget(given.get('budget') ?? '') ?? DEFAULT.budget,
    maxNewTokens: whole(given.get('new'), 1, LIMITS.maxNewTokens) ?? DEFAULT.maxNewTokens,
    device: DEVICES.find((device) => device === given.get('device')) ?? DEFAULT.device,
    cache: CACHES.find((cache) => cache === given.get('cache')) ?? DEFAULT.cache,
  };
}

function readModel(given: URLSearchParams): ModelChoice {
  for (const kind of MODELS.filter((kind) => kind !== 'embedded')) {
    const name = given.get(kind) ?? '';
    if (name !== '' && name.length <= LIMITS.name) return { kind, name };
  }
  return DEFAULT.model;
}

function example(given: URLSearchParams): NeedlePrompt {
  const { form, tokens, depth, seed } = DEFAULT.source as NeedlePrompt;
  return {
    kind: 'needle',
    form: FORMS.find((name) => name === given.get('form')) ?? form,
    tokens: LENGTHS.find((length) => String(length) === given.get('tokens')) ?? tokens,
    depth: whole(given.get('depth'), 0, 100) ?? depth,
    seed: whole(given.get('seed'), 0, LIMITS.seed) ?? seed,
  };
}

/** Parses a number of slots, or a share such as `25%`; undefined for anything else. */
export function readBudget(text: string): Budget | undefined {
  const share = /^(\d{1,3}(?:\.\d{1,3})?)\s*%$/.exec(text.trim())?.[1];
  if (share !== undefined) return Number(share) > 0 && Number(share) <= 100 ? `${Number(share)}%` : undefined;
  return whole(text.trim(), 1, LIMITS.slots);
}

/** Parses a whole number between two bounds; undefined for anything else. */
export function whole(text: string | null, min: number, max: number): number | undefined {
  const value = Number(text);
  return text !== null && /^\d{1,9}$/.test(text) && value >= min && value <= max ? value : undefined;
}
