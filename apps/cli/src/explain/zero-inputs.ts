import type { AnySignal, LayerContext, Ops } from '@kv/core';
import { isInputSignal } from '@kv/core/engine';

/** Returns zeros in the shape of a provided signal, which comes from a file stored with the model or another pass. */
export function providedZeros(
  signal: AnySignal,
  { layers, queryHeads: H, kvHeads: G, headDim: d, slots: n, length }: LayerContext,
  ops: Ops,
): unknown {
  const { id, args } = signal;
  if (isInputSignal(signal)) {
    const rows = { query: H, kv: G, layer: 1 }[signal.ofInput.rows];
    return ops.from({ data: new Float32Array(rows * n), shape: [rows, n] });
  }
  if (id === 'preRope')
    return {
      queryHeads: H,
      headDim: d,
      half: Math.floor(d / 2),
      mean: new Float32Array(H * d),
      size: new Float32Array(H * Math.floor(d / 2)),
    };
  if (id === 'queries.repeated') {
    const w = Math.min(Number(args?.['w']), length);
    return {
      queries: ops.from({ data: new Float32Array(H * w * d), shape: [H, w, d] }),
      positions: new Uint32Array(w).fill(2 * length),
    };
  }
  if (id === 'layer.input') return ops.from({ data: new Float32Array(H * d), shape: [1, 1, H * d] });
  if (id === 'confidences') return new Float32Array(length);
  if (id === 'queryStatistics')
    return { queryHeads: H, headDim: d, mean: new Float32Array(H * d), covariance: new Float32Array(H * d * d) };
  if (id === 'headScores') return { places: Array.from({ length: G }, (_, g) => g * layers), of: G * layers, layers };
  if (id === 'budgetCurve') return { heads: G, layers, lost: [new Array<number>(G).fill(0.5)] };
  if (id === 'qFilters') return { kvHeads: G, headDim: d, filters: new Float32Array(G * d) };
  if (id === 'crystalcache.co-attention')
    return {
      saliency: new Float32Array(length),
      from: new Uint32Array(),
      to: new Uint32Array(),
      weight: new Float32Array(),
    };
  return ops.from({ data: new Float32Array(H * n), shape: [H, n] });
}
