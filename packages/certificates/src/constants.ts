import { KvError } from '@kv/core';
import { fitDecay } from './design.ts';
import type { Decay } from './design.ts';
import { ages } from './fading.ts';

/**
 * Constants of the design-time bounds, fitted on a calibration run, with the errors of the fits. Input of
 * `certificates({ constants })`.
 */
export interface Constants {
  /** Tokens of the calibration text. */
  readonly tokens: number;
  readonly layers: number;
  /** Channels of a head, d. */
  readonly dim: number;
  /** First positions that the fits leave out. */
  readonly sinks: number;
  /** Q_max and the mean norm of queries, in layers from ℓ_s on. */
  readonly queryNorm: { readonly max: number; readonly mean: number };
  /** K_max, over all layers. */
  readonly keyNorm: number;
  /** λ of each layer with τ_sink: how attention fades with age. `null` where there was too little to fit. */
  readonly fading: readonly ((Decay & { readonly sinkMass: number }) | null)[];
  /**
   * B and μ: how the largest change of a key from layer to layer shrinks with ℓ - ℓ_s. Absent with fewer than two such
   * layers.
   */
  readonly change?: Decay;
}
/** Head counts and width of a model's attention. */
export interface AttentionDims {
  readonly layers: number;
  readonly queryHeads: number;
  readonly kvHeads: number;
  readonly headDim: number;
}

const norms = (x: Float32Array, d: number, see: (norm: number) => void): void => {
  for (let at = 0; at < x.length; at += d) {
    let sum = 0;
    for (let c = 0; c < d; c++) sum += x[at + c] ** 2;
    see(Math.sqrt(sum));
  }
};

/**
 * Returns a collector that fits λ, B and μ on a calibration text. Feed it what `watchLayers` of `@kv/models` reports,
 * layer after layer.
 *
 * @remarks PrHS, eq. 44 by the mass older than D = 1, 2, 4, ...; eq. 45 by max |k_ℓ - k_(ℓ-1)| over all positions, for
 * ℓ from ℓ_s = ⌊3 N / 4⌋ on, counted from 1.
 * @param options.sinks first positions, left out of the fading fit. Default 4
 */
export function fitConstants(
  { layers, queryHeads, headDim }: AttentionDims,
  { sinks = 4 }: { readonly sinks?: number } = {},
): {
  queries(layer: number, q: Float32Array): void;
  keys(layer: number, k: Float32Array): void;
  newest(layer: number, weights: Float32Array): void;
  take(tokens: number): Constants;
} {
  const start = Math.floor((3 * layers) / 4),
    fades = Array.from({ length: layers }, () => ages(sinks)),
    changes = new Map<number, number>();
  let max = 0,
    sum = 0,
    count = 0,
    keyNorm = 0,
    below: { readonly layer: number; readonly keys: Float32Array } | undefined;
  return {
    queries(layer, q) {
      if (layer + 1 >= start)
        norms(q, headDim, (norm) => {
          max = Math.max(max, norm);
          sum += norm;
          count++;
        });
    },
    keys(layer, keys) {
      norms(keys, headDim, (norm) => {
        keyNorm = Math.max(keyNorm, norm);
      });
      const last = below;
      if (last?.layer === layer - 1 && layer + 1 >= start)
        norms(
          keys.map((x, i) => x - last.keys[i]),
          headDim,
          (norm) => changes.set(layer, Math.max(changes.get(layer) ?? 0, norm)),
        );
      below = { layer, keys: keys.slice() };
    },
    newest(layer, weights) {
      const n = weights.length / queryHeads,
        positions = Array.from({ length: n }, (_, i) => i);
      for (let h = 0; h < queryHeads; h++)
        fades[layer].add({ query: n - 1, weights: weights.subarray(h * n, (h + 1) * n), positions });
    },
    take(tokens) {
      const points = [...changes]
        .map(([layer, norm]) => [layer + 1 - start, norm] as const)
        .filter(([, norm]) => norm > 0);
      return {
        tokens,
        layers,
        dim: headDim,
        sinks,
        queryNorm: { max, mean: count === 0 ? 0 : sum / count },
        keyNorm,
        fading: fades.map((each) => {
          const found = each.take();
          return found
            ? { scale: found.scale, rate: found.rate, error: found.error, above: found.above, sinkMass: found.sinkMass }
            : null;
        }),
        ...(points.length > 1 && { change: fitDecay(points) }),
      };
    },
  };
}

type Fields = Readonly<Record<string, unknown>>;
/** Most layers that a file may describe. */
const MOST = 10_000;

/**
 * Reads constants from the text of a file.
 *
 * @throws KvError for text that is not what `fitConstants` gives, or constants of a model with another shape
 */
export function readConstants(text: string, { layers, headDim }: Pick<AttentionDims, 'layers' | 'headDim'>): Constants {
  const refuse = (what: string, got: unknown): never => {
    throw new KvError('calibration', `expected ${what}, got ${JSON.stringify(got)?.slice(0, 40) ?? 'nothing'}`);
  };
  const fields = (x: unknown, name: string): Fields =>
    typeof x === 'object' && x !== null && !Array.isArray(x) ? (x as Fields) : refuse(`${name} to be an object`, x);
  const number = (of: Fields, key: string, least = -Infinity): number => {
    const x = of[key];
    return typeof x === 'number' && Number.isFinite(x) && x >= least
      ? x
      : refuse(`${key} to be a number${least > -Infinity ? ` of at least ${least}` : ''}`, x);
  };
  const whole = (of: Fields, key: string): number => {
    const x = number(of, key, 0);
    return Number.isInteger(x) && x <= Number.MAX_SAFE_INTEGER ? x : refuse(`${key} to be a whole number`, x);
  };
  const decay = (x: Fields): Decay => ({
    scale: number(x, 'scale', 0),
    rate: number(x, 'rate'),
    error: number(x, 'error', 0),
    above: number(x, 'above', 0),
  });
  let parsed: unknown;
  try {
    parsed = JSON.parse(text);
  } catch {
    refuse('a JSON object', text);
  }
  const all = fields(parsed, 'the file'),
    norm = fields(all['queryNorm'], 'queryNorm'),
    fading = all['fading'];
  if (whole(all, 'layers') !== layers || whole(all, 'dim') !== headDim)
    refuse(
      `constants of a model with ${layers} layers and ${headDim} channels a head`,
      `${String(all['layers'])} and ${String(all['dim'])}`,
    );
  if (!Array.isArray(fading) || fading.length !== layers || layers > MOST)
    return refuse(`fading to be ${layers} entries`, fading);
  return {
    tokens: whole(all, 'tokens'),
    layers,
    dim: headDim,
    sinks: whole(all, 'sinks'),
    queryNorm: { max: number(norm, 'max', 0), mean: number(norm, 'mean', 0) },
    keyNorm: number(all, 'keyNorm', 0),
    fading: fading.map((x: unknown) => {
      if (x === null) return null;
      const own = fields(x, 'fading');
      return { ...decay(own), sinkMass: number(own, 'sinkMass', 0) };
    }),
    ...(all['change'] !== undefined && { change: decay(fields(all['change'], 'change')) }),
  };
}
