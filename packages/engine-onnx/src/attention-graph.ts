import type { WindowStatistic } from '@kv/core';
import { graphWriter, type GraphWriter } from './graph.ts';

/** The parameters of an attention graph. */
export interface AttentionGraphShape {
  readonly kvHeads: number;
  /** Query heads per KV head. */
  readonly group: number;
  readonly headDim: number;
  readonly scale: number;
  readonly softcap?: number;
  readonly masked: boolean;
  readonly sums: boolean;
  readonly maxima: boolean;
  /** Statistics of its last rows. */
  readonly windows: readonly WindowShape[];
}

/** A statistic of the last `rows` rows of an attention graph, or of all of them. */
export interface WindowShape {
  readonly rows: number | 'all';
  readonly of?: 'max' | WindowStatistic | undefined;
}

/**
 * Builds attention of m rows as an ONNX model, where each KV head g has its own number of slots: inputs `q{g}`
 * `[group, m, d]`, `k{g}` and `v{g}` `[n, d]`, `mask{g}` `[1 or group, m, n]` to add; outputs `out` `[m, H, d]`, over
 * the rows `sum{g}` and `max{g}`, and over those of the i-th window `window{g}.{i}`, `[group, n]`.
 */
export function attentionGraph({
  kvHeads,
  group,
  headDim: d,
  scale,
  softcap,
  masked,
  sums,
  maxima,
  windows,
}: AttentionGraphShape): Uint8Array {
  const graph = graphWriter('attention');
  const cap = softcap === undefined ? undefined : graph.floats(Float32Array.of(softcap), []);
  const heads = Array.from({ length: kvHeads }, (_, g) => {
    const q = graph.input(`q${g}`, [group, 'm', d]),
      k = graph.input(`k${g}`, [`n${g}`, d]),
      v = graph.input(`v${g}`, [`n${g}`, d]);
    let scores = graph.contrib('FusedMatMul', [q, k], { transB: 1, alpha: { float: scale } });
    if (cap !== undefined) scores = graph.op('Mul', [graph.op('Tanh', [graph.op('Div', [scores, cap])]), cap]);
    if (masked) scores = graph.op('Add', [scores, graph.input(`mask${g}`, [`r${g}`, 'm', `n${g}`])]);
    const shares = graph.op('Softmax', [scores], { axis: -1 });
    if (sums)
      graph.output(`sum${g}`, graph.op('ReduceSum', [shares, graph.ints(1)], { keepdims: 0 }), [group, `n${g}`]);
    if (maxima) graph.output(`max${g}`, graph.op('ReduceMax', [shares], { axes: [1], keepdims: 0 }), [group, `n${g}`]);
    for (const [i, window] of windows.entries())
      graph.output(`window${g}.${i}`, windowColumns(graph, window, scores, shares), [group, `n${g}`]);
    return graph.op('Transpose', [graph.op('MatMul', [shares, v])], { perm: [1, 0, 2] });
  });
  graph.output('out', heads.length === 1 ? heads[0] : graph.op('Concat', heads, { axis: 1 }), [
    'm',
    kvHeads * group,
    d,
  ]);
  return graph.model();
}

/** A number below every score and above the mask's; and the least weight that has a logarithm. */
const HIDDEN = -3e38,
  LEAST = 1e-38;

/** Returns the statistic of `WindowColumns` of scores and weights `[group, m, n]`, `[group, n]`. */
function windowColumns(graph: GraphWriter, { rows, of }: WindowShape, scores: string, shares: string): string {
  const last = (all: string): string =>
    rows === 'all' ? all : graph.op('Slice', [all, graph.ints(-rows), graph.ints(2 ** 31 - 1), graph.ints(1)]);
  const number = (x: number): string => graph.floats(Float32Array.of(x), []),
    float = (mask: string): string => graph.op('Cast', [mask], { to: 1 }),
    sum = (x: string): string => graph.op('ReduceSum', [x, graph.ints(1)], { keepdims: 0 }),
    p = last(shares);
  const seen = (): string =>
    graph.op('ReduceSum', [float(graph.op('Greater', [last(scores), number(HIDDEN)])), graph.ints(2)]);
  switch (of) {
    case undefined:
      return sum(p);
    case 'max':
      return graph.op('ReduceMax', [p], { axes: [1], keepdims: 0 });
    case 'squares':
      return sum(graph.op('Mul', [p, p]));
    case 'votes':
      return sum(float(graph.op('Greater', [p, graph.op('Div', [number(1), seen()])])));
    case 'normalized':
      return sum(graph.op('Mul', [p, graph.op('Sub', [seen(), number(1)])]));
    case 'entropy':
      return graph.op('Neg', [sum(graph.op('Mul', [p, graph.op('Log', [graph.op('Max', [p, number(LEAST)])])]))]);
  }
}
