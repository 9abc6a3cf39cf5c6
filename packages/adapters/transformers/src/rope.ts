import { KvError } from '@kv/core';
import type { Rope } from '@kv/core';

type Fields = Readonly<Record<string, unknown>>;

/**
 * Returns a model's rotary embedding from its config.json: types default, linear and llama3, pairs (i, i + rotary / 2),
 * the same in every layer. @throws KvError for others
 */
export function ropeOf(config: Fields, headDim: number): Rope {
  expectAlike(config);
  const scaling = (config.rope_parameters ?? config.rope_scaling ?? {}) as Fields,
    number = (name: string, fallback: number): number => Number(scaling[name] ?? config[name] ?? fallback),
    type = scaling.rope_type ?? scaling.type ?? 'default',
    rotary = Math.floor(headDim * number('partial_rotary_factor', 1)),
    theta = number('rope_theta', 10_000),
    by = divisors(String(type), number, rotary, theta),
    frequency = Float32Array.from({ length: rotary / 2 }, (_, i) => 1 / (theta ** ((2 * i) / rotary) * by(i)));
  return {
    rotary,
    angles(positions) {
      const angle = (row: number): Float32Array => frequency.map((f) => Math.fround(row * f)),
        rows = Array.from(positions, angle),
        all = (of: (x: number) => number): Float32Array =>
          Float32Array.from(rows.flatMap((row) => Array.from(row, of)));
      return { cos: all(Math.cos), sin: all(Math.sin) };
    },
  };
}

/** @throws KvError for layers with different rotary embeddings, as in Gemma 3, or without one, as in SmolLM3. */
function expectAlike({
  model_type: kind,
  rope_parameters,
  rope_local_base_freq: local,
  no_rope_layers: turns,
}: Fields): void {
  const nested = Object.values((rope_parameters ?? {}) as Fields).some(
      (x) => typeof x === 'object' && x !== null && !Array.isArray(x),
    ),
    every = Array.isArray(turns) ? !turns.includes(0) : kind !== 'smollm3';
  if (nested || local != null || /^gemma3/.test(String(kind)) || !every)
    throw new KvError(
      'withPolicy',
      `this policy needs to know how keys are turned: expected layers that turn alike, got ${String(kind)}, whose layers differ`,
    );
}

function divisors(
  type: string,
  number: (name: string, fallback: number) => number,
  rotary: number,
  theta: number,
): (pair: number) => number {
  if (type === 'default') return () => 1;
  if (type === 'linear') return () => number('factor', 1);
  if (type !== 'llama3')
    throw new KvError(
      'withPolicy',
      `this policy needs to know how keys are turned: expected rotary embeddings of type default, linear or llama3, got ${type}`,
    );
  const [factor, low, high, original] = [
    number('factor', 1),
    number('low_freq_factor', 1),
    number('high_freq_factor', 4),
    number('original_max_position_embeddings', 8192),
  ];
  return (pair) => {
    const wave = 2 * Math.PI * theta ** ((2 * pair) / rotary),
      share = Math.min(1, Math.max(0, (original / wave - low) / (high - low)));
    return 1 / ((1 - share) / factor + share);
  };
}

/** Returns a function that rotates the `d` numbers at `at` from one position to another, in place. */
export function rotator({ rotary, angles }: Rope): (x: Float32Array, at: number, from: number, to: number) => void {
  const half = rotary / 2,
    known = new Map<number, { readonly cos: Float32Array; readonly sin: Float32Array }>();
  return (x, at, from, to) => {
    if (from === to) return;
    const step = Math.abs(from - to),
      angle = known.get(step) ?? angles(Uint32Array.of(step)),
      sign = Math.sign(to - from);
    known.set(step, angle);
    for (let i = 0; i < half; i++) {
      const [a, b] = [x[at + i], x[at + half + i]],
        [c, s] = [angle.cos[i], sign * angle.sin[i]];
      x[at + i] = a * c - b * s;
      x[at + half + i] = b * c + a * s;
    }
  };
}
