import type { Heads } from '@kv/checkpoints';
import type { ModelConfig } from '@kv/checkpoints';
import { types, type GraphWriter } from '../graph.ts';
import type { AngleNames } from '../program-graph.ts';

/** A layer's attention in an exported graph: rows `[batch, m, heads * d]` and the past `[batch, G, past, d]`. */
export interface LayerInputs {
  readonly layer: number;
  readonly q: string;
  readonly k: string;
  readonly v: string;
  readonly past: readonly [key: string, value: string];
}

/** Writes a layer's attention, with its outputs `present.N.key|value`, and returns rows `[batch, m, H * d]`. */
export type AttentionNodes = (inputs: LayerInputs) => string;

const present = (layer: number): readonly [string, string] => [`present.${layer}.key`, `present.${layer}.value`];

/**
 * Returns whether GroupQueryAttention supports heads of this size, and rotates them itself in the layers that rotate
 * any.
 */
export const fits = (
  { ropes }: ModelConfig,
  { headDim }: Heads,
): { readonly fused: boolean; readonly turning: boolean } => ({
  fused: headDim % 8 === 0,
  turning: headDim % 16 === 0 && ropes.every(({ rotary }) => rotary % 16 === 0),
});

/** Returns the total number of slots, an int64 scalar. */
export const slotCount = (graph: GraphWriter, mask: string): string =>
  graph.op('Gather', [graph.op('Shape', [mask]), graph.int(1)]);

/**
 * Writes GroupQueryAttention of `com.microsoft`. With angles of all positions, by layer, it rotates queries and keys
 * itself.
 */
export function fusedAttention(
  graph: GraphWriter,
  { attention: { scale, softcap, windows } }: ModelConfig,
  { queryHeads, kvHeads }: Heads,
  mask: string,
  anglesAt: (layer: number) => AngleNames | undefined,
): AttentionNodes {
  const whole = { to: types.int32 },
    ones = graph.op('ReduceSum', [mask, graph.ints(1)], { keepdims: 0 }),
    last = graph.op('Cast', [graph.op('Sub', [ones, graph.int(1)])], whole),
    total = graph.op('Cast', [slotCount(graph, mask)], whole);
  return ({ layer, q, k, v, past }) => {
    const angles = anglesAt(layer);
    return graph.contribs(
      'GroupQueryAttention',
      [q, k, v, ...past, last, total, ...(angles ? [angles.cos, angles.sin] : [])],
      [`attended.${layer}`, ...present(layer)],
      {
        num_heads: queryHeads,
        kv_num_heads: kvHeads,
        scale: { float: scale },
        ...(softcap !== undefined && { softcap: { float: softcap } }),
        ...(Number.isFinite(windows[layer]) && { local_window_size: windows[layer] }),
        ...(angles && { do_rotary: 1 }),
      },
    )[0];
  };
}

/** Writes products and a softmax, for heads of any size. A KV head's keys are read once for all of its query heads. */
export function plainAttention(
  graph: GraphWriter,
  { attention: { scale, softcap, windows } }: ModelConfig,
  { queryHeads: H, kvHeads: G, headDim: d }: Heads,
  mask: string,
  ids: string,
): AttentionNodes {
  const op = graph.op,
    [batch, count] = [0, 1].map((axis) => op('Gather', [op('Shape', [ids]), graph.ints(axis)])),
    scalar = (value: number): string => graph.floats(Float32Array.of(value), []),
    shaped = (value: string, ...sizes: readonly number[]): string =>
      op('Reshape', [value, op('Concat', [batch, count, graph.ints(...sizes)], { axis: 0 })]);
  const bias = hidden(graph, mask, ids),
    biases = new Map<number, string>();
  const kv = (value: string, past: string, to: string): string =>
    graph.to('Concat', [past, op('Transpose', [shaped(value, G, d)], { perm: [0, 2, 1, 3] })], to, { axis: 2 });
  return ({ layer, q, k, v, past }) => {
    const names = present(layer),
      [keys, values] = [kv(k, past[0], names[0]), kv(v, past[1], names[1])],
      across = (value: string, perm: readonly number[]): string =>
        op('Transpose', [op('Unsqueeze', [value, graph.ints(2)])], { perm });
    const queries = op('Transpose', [shaped(q, G, H / G, d)], { perm: [0, 2, 3, 1, 4] }); // [batch, G, R, m, d]
    let scores = op('Mul', [op('MatMul', [queries, across(keys, [0, 1, 2, 4, 3])]), scalar(scale)]);
    if (softcap !== undefined)
      scores = op('Mul', [op('Tanh', [op('Div', [scores, scalar(softcap)])]), scalar(softcap)]);
    const window = windows[layer],
      mine = biases.get(window) ?? bias(window);
    biases.set(window, mine);
    const shares = op('Softmax', [op('Add', [scores, mine])], { axis: -1 }),
      attended = op('MatMul', [shares, op('Unsqueeze', [values, graph.ints(2)])]);
    return shaped(op('Transpose', [attended], { perm: [0, 3, 1, 2, 4] }), H * d);
  };
}

/** Returns what to add to scores `[batch, G, R, m, n]`: 0 where a query sees the slot, the lowest number elsewhere. */
function hidden(graph: GraphWriter, mask: string, ids: string): (window: number) => string {
  const { op } = graph,
    total = slotCount(graph, mask),
    count = op('Gather', [op('Shape', [ids]), graph.int(1)]),
    slots = op('Range', [graph.int(0), total, graph.int(1)]),
    own = op('Unsqueeze', [op('Range', [op('Sub', [total, count]), total, graph.int(1)]), graph.ints(1)]), // [m, 1]
    there = op('Cast', [op('Unsqueeze', [mask, graph.ints(1, 2, 3)])], { to: types.bool }), // [batch, 1, 1, 1, n]
    seen = op('And', [there, op('LessOrEqual', [slots, own])]);
  return (window) => {
    const all = Number.isFinite(window)
      ? op('And', [seen, op('Less', [op('Sub', [own, graph.int(window)]), slots])])
      : seen;
    return op('Where', [all, graph.floats(Float32Array.of(0), []), graph.floats(Float32Array.of(-3.4e38), [])]);
  };
}
