import { KvError } from '@kv/core';
import { integer, object, optional, positive, show, type Fields } from './fields.ts';

/** How positions turn heads: pair i of `rotary / 2` by position * theta^(-2i / rotary) / divisor. */
export interface RopeConfig {
  readonly theta: number;
  /** Leading numbers of a head that turn, as pairs (i, i + rotary / 2). */
  readonly rotary: number;
  /** Divisors of the frequencies `[rotary / 2]`. @defaultValue 1 */
  readonly divisors?: readonly number[];
  /** Other divisors for sequences of more than `beyond` tokens (LongRoPE, arXiv 2402.13753). */
  readonly long?: { readonly divisors: readonly number[]; readonly beyond: number };
  /** Multiplies cos and sin. @defaultValue 1 */
  readonly attentionFactor?: number;
}

interface Around {
  readonly headDim: number;
  readonly maxPositions: number;
  /** Whether the architecture may turn a part of each head. */
  readonly partial: boolean;
  readonly where: string;
}

/**
 * Reads `rope_parameters`, or `rope_scaling` and `rope_theta` as older files spell it. @throws KvError naming the
 * field, and the types that there are.
 */
export function parseRope(fields: Fields, { headDim, maxPositions, partial, where }: Around): RopeConfig {
  const name = fields.rope_parameters == null ? 'rope_scaling' : 'rope_parameters';
  const rope = fields[name] == null ? {} : object(fields[name], where, name);
  const theta = positive(rope.rope_theta == null ? fields : rope, 'rope_theta', where, 10_000);
  const share = positive(rope.partial_rotary_factor == null ? fields : rope, 'partial_rotary_factor', where, 1);
  if (share > 1 || (share !== 1 && !partial))
    throw new KvError(where, `partial_rotary_factor must be ${partial ? 'at most 1' : '1'}, got ${share}`);
  const rotary = Math.floor(headDim * share);
  if (rotary % 2 !== 0 && share !== 1)
    throw new KvError(where, `partial_rotary_factor must leave an even part of head_dim (${headDim}), got ${share}`);
  const plain = { theta, rotary };
  const type = rope.rope_type ?? rope.type ?? 'default';
  switch (type) {
    case 'default':
      return plain;
    case 'linear':
      return { ...plain, divisors: new Array<number>(rotary / 2).fill(positive(rope, 'factor', where)) };
    case 'llama3':
      return { ...plain, divisors: llama3(plain, rope, where) };
    case 'su':
    case 'longrope':
      return { ...plain, ...longrope(rotary, fields, rope, maxPositions, where) };
    default:
      throw new KvError(where, `rope_type must be one of default, linear, llama3, longrope, got ${show(type)}`);
  }
}

/** Long waves are slowed by `factor`, short ones not, those between in proportion: Llama 3.1's scaling. */
function llama3({ theta, rotary }: RopeConfig, rope: Fields, where: string): number[] {
  const [factor, low, high] = [
    positive(rope, 'factor', where),
    positive(rope, 'low_freq_factor', where),
    positive(rope, 'high_freq_factor', where),
  ];
  const original = integer(rope, 'original_max_position_embeddings', where);
  if (high <= low) throw new KvError(where, `high_freq_factor must be above low_freq_factor (${low}), got ${high}`);
  return Array.from({ length: rotary / 2 }, (_, i) => {
    const wave = 2 * Math.PI * theta ** ((2 * i) / rotary);
    const share = Math.min(1, Math.max(0, (original / wave - low) / (high - low)));
    return 1 / ((1 - share) / factor + share);
  });
}

function longrope(
  rotary: number,
  fields: Fields,
  rope: Fields,
  maxPositions: number,
  where: string,
): Partial<RopeConfig> {
  const beyond = integer(
    fields.original_max_position_embeddings == null ? rope : fields,
    'original_max_position_embeddings',
    where,
    maxPositions,
  );
  const factor = positive(rope, 'factor', where, maxPositions / beyond);
  const attentionFactor = positive(
    rope,
    'attention_factor',
    where,
    factor <= 1 ? 1 : Math.sqrt(1 + Math.log(factor) / Math.log(beyond)),
  );
  return {
    divisors: divisorsOf(rope.short_factor, 'short_factor', rotary, where),
    long: { divisors: divisorsOf(rope.long_factor, 'long_factor', rotary, where), beyond },
    ...optional('attentionFactor', attentionFactor === 1 ? undefined : attentionFactor),
  };
}

/** @throws KvError unless the value lists a positive divisor for each pair. */
function divisorsOf(value: unknown, name: string, rotary: number, where: string): readonly number[] {
  if (
    Array.isArray(value) &&
    value.length === rotary / 2 &&
    value.every((x) => typeof x === 'number' && Number.isFinite(x) && x > 0)
  )
    return value as number[];
  throw new KvError(where, `${name} must be ${rotary / 2} positive numbers, got ${show(value)}`);
}
