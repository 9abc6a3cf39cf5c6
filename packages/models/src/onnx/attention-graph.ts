import { graphWriter } from './graph.ts';

/** What makes one attention graph differ from another. */
export interface AttentionShape {
  readonly kvHeads: number;
  /** Query heads of a KV head. */
  readonly group: number;
  readonly headDim: number;
  readonly scale: number;
  readonly softcap?: number;
  readonly masked: boolean;
  readonly sums: boolean;
  readonly maxima: boolean;
}

/**
 * Attention of m rows as an ONNX model, each KV head g with slots of its own number: inputs `q{g}` `[group, m, d]`,
 * `k{g}` and `v{g}` `[n, d]`,
 * `mask{g}` `[1 or group, m, n]` to add; outputs `out` `[m, H, d]` and over the rows `sum{g}`, `max{g}` `[group, n]`.
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
}: AttentionShape): Uint8Array {
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
    return graph.op('Transpose', [graph.op('MatMul', [shares, v])], { perm: [1, 0, 2] });
  });
  graph.output('out', heads.length === 1 ? heads[0] : graph.op('Concat', heads, { axis: 1 }), [
    'm',
    kvHeads * group,
    d,
  ]);
  return graph.model();
}
