import type { StepContext } from './piece-declaration.ts';
import { countBelow } from '../tensor/count-below.ts';
import { LOWEST } from '../tensor/tensor.ts';
import { kernel } from '../tensor/kernel.ts';
import type { Kernel, Products } from '../tensor/kernel.ts';
import { range } from '../tensor/range.ts';
import type { Tensor } from '../tensor/tensor.ts';

type Seen = StepContext & { readonly queries: Tensor; readonly keys: Tensor };
/** Consecutive queries of the observation window. */
export interface WindowBlock {
  /** Multiplied by what multiplies q·k, `[H c, d]`: grouped by query head, oldest first. */
  readonly queries: Tensor;
  /** Number per head, c. */
  readonly count: number;
  /** Position of the oldest. */
  readonly first: number;
}

/**
 * Maximum size of the rows of a block of more than one query, in numbers: 16 MiB, the 32 queries of 32 heads at 4,096
 * slots.
 */
const ROOM = 2 ** 22;

/**
 * Sums, or takes the maximum of, the rows that `each` returns for blocks of c queries, over the queries of the
 * observation window. `each` returns `[H c, n]`, `[G c, n]` or the rows of the result. The result is `[rows, n]`: with
 * rows = H by query head, with rows = G over the heads of each group too. A block has as many queries as fit in `room`
 * numbers, at least one.
 */
export function overWindow(
  { ops, at, queries: q, keys: k }: Seen,
  kind: 'sum' | 'max',
  rows: number,
  each: (block: WindowBlock) => Tensor,
  room: number = ROOM,
): Tensor {
  const [H = 1, w = 1, d = 1] = q.shape,
    [, n = 1] = k.shape,
    scaled = at.scale === undefined ? ops.div(q, Math.sqrt(d)) : ops.mul(q, at.scale),
    most = Math.max(1, Math.floor(room / (H * n)));
  const block = (from: number): Tensor => {
    const count = Math.min(most, w - from),
      own = ops.take(scaled, ops.from({ data: range(from, count), shape: [1, count] }));
    return ops.groupRows(
      kind,
      each({ queries: ops.reshape(own, [H * count, d]), count, first: at.length - w + from }),
      rows,
    );
  };
  let total = block(0);
  for (let from = most; from < w; from += most) total = ops.zip(kind === 'sum' ? 'add' : 'max', total, block(from));
  return total;
}

type Causal = Kernel<
  { readonly q: 'f32'; readonly k: 'f32'; readonly p: 'u32' },
  { readonly block: 'u32'; readonly first: 'f32' }
>;
/**
 * Makes a reference that runs by KV head: its queries, keys, how many slots each query sees, and the rows of the
 * result.
 */
function byHead(
  each: (
    queries: Float32Array,
    keys: Float32Array,
    d: number,
    seen: Float32Array,
    own: Float32Array,
    length: number,
    products: Products,
  ) => void,
): Causal['ref'] {
  return ({ q, k, p }, { block = 1, first = 0 }, out, lengths, products) => {
    const [rows = 0, d = 0] = q.shape,
      [heads = 1, n = 0] = k.shape,
      group = rows / heads;
    for (let g = 0; g < heads; g++) {
      const positions = p.data.subarray(g * n, g * n + lengths[g]);
      each(
        q.data.subarray(g * group * d, (g + 1) * group * d),
        k.data.subarray(g * n * d, (g + 1) * n * d),
        d,
        Float32Array.from({ length: group }, (_, r) => countBelow(positions, first + ((g * group + r) % block) + 1)),
        out.subarray(g * group * n, (g + 1) * group * n) as Float32Array,
        lengths[g],
        products,
      );
    }
  };
}

/**
 * Inner products of q `[r, d]`, `block` queries of each head with the oldest at position `first`, with the keys k
 * `[r', n, d]` whose positions p `[r', n]` are not later; the lowest number for other keys: `[r, n]`.
 */
export const causalDot = kernel({
  id: 'causal-dot',
  inputs: { q: 'f32', k: 'f32', p: 'u32' },
  params: { block: 'u32', first: 'f32' },
  ragged: 'k',
  output: { shape: ({ q, k }) => [q[0], k[1]] },
  wgsl: /* wgsl */ `
fn run(index: u32) {
  let n = k_shape.y; let d = k_shape.z; let row = index / n;
  let slot = row / (q_shape.x / k_shape.x) * n + index % n;
  output[index] = -0x1.fffffep+127f;
  if (f32(p[slot]) > params.first + f32(row % params.block)) { return; }
  var sum = 0.0;
  for (var c = 0u; c < d; c++) { sum += q[row * d + c] * k[slot * d + c]; }
  output[index] = sum;
}`,
  operations: ({ q, k }) => 2 * q.shape[0] * k.shape[1] * k.shape[2],
  ref: byHead((queries, keys, d, seen, own, length, { multiply }) => {
    const n = keys.length / d;
    multiply(queries, keys, d, own);
    seen.forEach((count, r) => own.fill(LOWEST, r * n + count, r * n + length));
  }),
});

/** The softmax of `causalDot`; uniform over all slots for a query that sees nothing. */
export const causalAttention: typeof causalDot = {
  ...causalDot,
  id: 'causal-attention',
  then: 'softmax',
  ref: byHead((queries, keys, d, seen, own, length, { attend }) => {
    const n = keys.length / d;
    attend(queries, keys, d, seen, own);
    seen.forEach((count, r) => {
      if (count === 0) own.fill(1 / length, r * n, r * n + length);
    });
  }),
};

/** What a block's queries attend to; `biases` are read only where slots have them. */
type Attended = Seen & { readonly positions: Tensor; readonly biases?: Tensor };
/**
 * Returns the logits of a block's queries with the slots at or before their own, q·k times the scale, with the slots'
 * biases where they have them: `[H c, n]`, the lowest number for other slots.
 */
export function blockLogits(ctx: Attended, { queries: q, count, first }: WindowBlock): Tensor {
  const { ops, at, keys: k, positions: p } = ctx,
    logits = ops.kernel(causalDot, { q, k, p }, { block: count, first });
  return at.biased && ctx.biases ? ops.add(logits, ctx.biases) : logits;
}

/**
 * Returns the attention of a block's queries over the slots at or before their own, the softmax of `blockLogits`, with
 * learned sinks where heads have them: `[H c, n]`.
 */
export function blockAttention(ctx: Attended, block: WindowBlock): Tensor {
  const { ops, at, keys: k, positions: p } = ctx,
    { queries: q, count, first } = block;
  if (!at.learnedSinks && !at.biased) return ops.kernel(causalAttention, { q, k, p }, { block: count, first });
  return softmaxWithSinks(ctx, blockLogits(ctx, block), count);
}

/**
 * Returns the softmax of scores over the slots, `[H count, n]`: `count` rows of each query head, whose learned sink, where it
 * has one, is one more score, without which the row is returned.
 */
export function softmaxWithSinks({ ops, at }: Pick<StepContext, 'ops' | 'at'>, scores: Tensor, count = 1): Tensor {
  const { learnedSinks: own } = at;
  if (!own) return ops.softmax(scores);
  const data = Float32Array.from({ length: own.length * count }, (_, row) => own[Math.floor(row / count)]),
    sinks = ops.from({ data, shape: [data.length, 1] }),
    top = ops.max(ops.reduce('max', scores, 'slots'), sinks),
    shares = ops.exp(ops.sub(scores, top));
  return ops.div(shares, ops.add(ops.reduce('sum', shares, 'slots'), ops.exp(ops.sub(sinks, top))));
}
