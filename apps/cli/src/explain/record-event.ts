import { isState, planBudgets, replacements, runEvent, signalKey } from '@kv/core/engine';
import type { AnySignal, At, DenseArray, Ops, Tensor } from '@kv/core';
import type { Compiled, EventLayer } from '@kv/core/engine';
import { sumRows } from '@kv/models/engine';
import type { ModelConfig } from '@kv/models';
import { stateShape } from './around-event.ts';
import type { Left } from './around-event.ts';

/**
 * Records one event of the whole model, on zeros: the same in every layer. What operations it records does not depend
 * on numbers. Gives what is left to do, by layer.
 */
export function recordEvent(
  policy: Compiled,
  { layers, queryHeads, kvHeads, headDim }: ModelConfig,
  slots: number,
  budget: number,
  ops: Ops,
): readonly Left[] {
  const lengths = Array.from({ length: layers }, () => Array.from({ length: kvHeads }, () => slots));
  const { budgets } = planBudgets(policy, budget, lengths),
    known = new Map<string, unknown>();
  const made = lengths.map((_, layer): EventLayer => {
    const at: At = {
      layer,
      layers,
      queryHeads,
      kvHeads,
      headDim,
      step: 0,
      promptLength: slots,
      length: slots,
      slots,
      aligned: true,
      budget,
      selectRows: kvHeads,
    };
    const read = (signal: AnySignal): unknown => {
      const key = signalKey(signal);
      if (!known.has(key)) known.set(key, sample(signal, at, ops));
      return known.get(key);
    };
    return { at, budgets: budgets[layer], read };
  });
  return (policy.reach === 'model' ? [made] : made.map((layer) => [layer])).flatMap((group) => {
    const left = replacements(policy, group, runEvent(policy, group, ops), ops);
    if ('error' in left) throw left.error;
    return left.drafts.map(
      (draft, i): Left => ({
        draft,
        replaced: left.made[i].flatMap(({ keys, values }) => [keys, values].filter((x) => x !== undefined)),
      }),
    );
  });
}

/** Numbers of the shape that an engine would give. */
function sample(
  signal: AnySignal,
  { layers, queryHeads: H, kvHeads: G, headDim: d, slots: n, length }: At,
  ops: Ops,
): unknown {
  const filled = (rows: readonly number[]): Tensor =>
    ops.from({ data: new Float32Array(rows.reduce((a, b) => a * b, 1)), shape: rows });
  if (signal.id === 'rope')
    return {
      rotary: d - (d % 2),
      angles: (p: Uint32Array) => ({
        cos: new Float32Array(p.length * Math.floor(d / 2)).fill(1),
        sin: new Float32Array(p.length * Math.floor(d / 2)),
      }),
    };
  if (signal.id === 'embeddings')
    return {
      width: 1,
      encode: (text: string) => Array.from(text, (_, i) => i % 7),
      rows: (ids: readonly number[]) => Float32Array.from(ids),
    };
  if (signal.id === 'preRope')
    return {
      queryHeads: H,
      headDim: d,
      half: Math.floor(d / 2),
      mean: new Float32Array(H * d),
      size: new Float32Array(H * Math.floor(d / 2)),
    };
  if (signal.id === 'confidences') return new Float32Array(length);
  if (signal.id === 'queryStatistics')
    return { queryHeads: H, headDim: d, mean: new Float32Array(H * d), covariance: new Float32Array(H * d * d) };
  if (signal.id === 'headScores')
    return { places: Array.from({ length: G }, (_, g) => g * layers), of: G * layers, layers };
  if (signal.id === 'budgetCurve') return { heads: G, layers, lost: [new Array<number>(G).fill(0.5)] };
  if (signal.id === 'qFilters') return { kvHeads: G, headDim: d, filters: new Float32Array(G * d) };
  if (signal.id === 'crystalcache.co-attention')
    return {
      saliency: new Float32Array(length),
      from: new Uint32Array(),
      to: new Uint32Array(),
      weight: new Float32Array(),
    };
  if (signal.id === 'tokens')
    return {
      ids: Array.from({ length }, (_, i) => i % 7),
      text: 'a'.repeat(length),
      offsets: Array.from({ length }, (_, i) => [i, i + 1]),
    };
  if (signal.id === 'positions')
    return ops.from({ data: Uint32Array.from({ length: G * n }, (_, i) => i % n), shape: [G, n] } as DenseArray, 'u32');
  if (signal.id === 'keys' || signal.id === 'values') return filled([G, n, d]);
  if (signal.id === 'queries') return filled([H, Number(signal.args?.w), d]);
  if (isState(signal)) return filled(stateShape(signal, { queryHeads: H, kvHeads: G }, n));
  return filled([sumRows(signal) === 'kv' ? G : H, n]);
}
