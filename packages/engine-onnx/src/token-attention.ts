import type { AttendOptions, HeadLayout, Rows } from '@kv/engine';
import { floats, hider, plainRows } from '@kv/engine';
import { countBelow } from '@kv/core/shared';
import type { GraphWriter } from './graph.ts';
import type { Onnx, OnnxTensor } from './runtime.ts';

/**
 * Adds attention of one token, or none, to another graph, `[s, H * d]`: inputs `q` `[G, H / G, s, d]` times the scale,
 * `keys` and `values` `[G, 1, n, d]` as a cache holds them, free slots included, and `mask` `[G, 1 or H / G, 1, n]` to
 * add, which hides those. Every head is an unscaled product of one row, for which ONNX Runtime reads keys and values in
 * place.
 */
export function tokenAttention(
  graph: GraphWriter,
  { queryHeads: H, kvHeads: G, headDim: d, softcap }: HeadLayout,
): string {
  const q = graph.input('q', [G, H / G, 's', d]),
    [keys, values] = ['keys', 'values'].map((name) => graph.input(name, [G, 1, 'slots', d])) as [string, string];
  let scores = graph.contrib('FusedMatMul', [q, keys], { transB: 1 });
  if (softcap !== undefined) {
    const cap = graph.floats(Float32Array.of(softcap), []);
    scores = graph.op('Mul', [graph.op('Tanh', [graph.op('Div', [scores, cap])]), cap]);
  }
  const shares = graph.op('Softmax', [graph.op('Add', [scores, graph.input('mask', [G, 'r', 1, 'slots'])])], {
    axis: -1,
  });
  return graph.op('Reshape', [graph.op('MatMul', [shares, values]), graph.ints(-1, H * d)]);
}

export type TokenFeeds = Readonly<Record<'q' | 'keys' | 'values' | 'mask', OnnxTensor>>;

/** Returns the inputs of `tokenAttention` for no token. */
export function noToken(onnx: Onnx, { queryHeads: H, kvHeads: G, headDim: d }: HeadLayout): TokenFeeds {
  const zeros = (...shape: readonly number[]): OnnxTensor =>
    new onnx.Tensor('float32', new Float32Array(shape.reduce((a, b) => a * b)), shape);
  return { q: zeros(G, H / G, 0, d), keys: zeros(G, 1, 1, d), values: zeros(G, 1, 1, d), mask: zeros(G, 1, 1, 1) };
}

/** Tensors over caches' arrays, which stay the same from token to token. */
const tensors = new WeakMap<Rows, OnnxTensor>();

/**
 * Returns the inputs of `tokenAttention`, or undefined for unsupported calls: several rows, statistics, other heads, a
 * cache that is not of f32 or whose slots have biases, a token that sees nothing. `masks` keeps the last plain mask, which the next layer usually shares.
 */
export function tokenFeeds(
  onnx: Onnx,
  { queryHeads: H, kvHeads: G, headDim: d, softcap }: HeadLayout,
  options: AttendOptions,
  masks: Map<string, OnnxTensor>,
): TokenFeeds | undefined {
  const { q, queryPositions, cache, stats, scale = 1 / Math.sqrt(d) } = options,
    { capacity, lengths } = cache,
    position = queryPositions[0];
  if (
    position === undefined ||
    queryPositions.length > 1 ||
    stats !== undefined ||
    cache.biases !== undefined ||
    cache.keys.form !== 'f32' ||
    options.softcap !== softcap ||
    cache.heads !== G ||
    cache.headDim !== d ||
    q.length !== H * d
  )
    return undefined;
  const hide = hider(options.visible, cache, H),
    rows = hide === undefined ? 1 : H / G;
  const positions = Array.from(lengths, (n, g) => cache.positions.subarray(g * capacity, g * capacity + n)),
    seen = positions.map((list) => countBelow(list, position + 1));
  const tensor = (data: Float32Array, ...shape: readonly number[]): OnnxTensor =>
      new onnx.Tensor('float32', data, shape),
    key = `${capacity} ${seen.join(' ')}`;
  let mask = hide === undefined ? masks.get(key) : undefined;
  if (mask === undefined) {
    const data = new Float32Array(G * rows * capacity).fill(-Infinity);
    for (let row = 0; row < G * rows; row++) {
      const g = Math.floor(row / rows),
        at = row * capacity,
        n = seen[g];
      data.fill(0, at, at + n);
      hide?.({ data, at, stride: capacity }, 0, position, n, row, g);
      if (positions[g][n - 1] !== position && data.subarray(at, at + n).every((x) => x !== 0)) return undefined;
    }
    mask = tensor(data, G, rows, 1, capacity);
    if (hide === undefined) {
      masks.clear();
      masks.set(key, mask);
    }
  }
  const stored = (rows: Rows): OnnxTensor => {
    const all = tensors.get(rows) ?? tensor(floats(rows.codes), G, 1, capacity, d);
    tensors.set(rows, all);
    return all;
  };
  return {
    q: tensor(
      q.map((x) => x * scale),
      G,
      H / G,
      1,
      d,
    ),
    keys: stored(plainRows(cache.keys)),
    values: stored(plainRows(cache.values)),
    mask,
  };
}
