import { turn } from '@kv/core/shared';
import type { Place, Rope, Tensor } from '@kv/core';

/**
 * Turns vectors `[r, m, d]` by the mean rotation of the `future` positions ahead: itself a rotation with shorter cos
 * and sin.
 */
export function ahead(
  { ops, at, rope: model }: Place & { readonly rope: Rope },
  future: number,
): (x: Tensor) => Tensor {
  const { cos, sin } = model.angles(Uint32Array.from({ length: future }, (_, i) => at.length + i)),
    half = model.rotary / 2;
  const mean = (x: Float32Array): Float32Array =>
    Float32Array.from({ length: half }, (_, c) => {
      let sum = 0;
      for (let i = 0; i < future; i++) sum += x[i * half + c];
      return sum / future;
    });
  const turns: Rope = { rotary: model.rotary, angles: () => ({ cos: mean(cos), sin: mean(sin) }) };
  return (x) =>
    turn(
      ops,
      x,
      turns,
      Uint32Array.of(0),
      ops.from({ data: new Uint32Array(x.shape[1]), shape: [1, x.shape[1]] }),
      false,
    );
}
/** R M Rᵀ of symmetric matrices `[H, d, d]`, R that rotation. */
export function aheadBothWays(ctx: Place & { readonly rope: Rope }, future: number): (m: Tensor) => Tensor {
  const { ops } = ctx,
    turned = ahead(ctx, future); // rows: m becomes M Rᵀ
  return (m) => {
    const [H = 1, d = 1] = m.shape,
      flipped = ops.from({
        data: Uint32Array.from({ length: d * d }, (_, i) => (i % d) * d + Math.floor(i / d)),
        shape: [1, d * d],
      });
    return turned(ops.reshape(ops.take(ops.reshape(turned(m), [H, d * d]), flipped), [H, d, d]));
  };
}

/**
 * What is known of past queries before rotation: themselves `[H, w, d]`, 1 for those that count `[1, w]` and how many
 * these are, and their mean `[H, 1, d]`.
 */
export interface Past {
  readonly before: Tensor;
  readonly counts: Tensor;
  readonly count: number;
  readonly mean: Tensor;
}
/** The queries kept, turned back; those of the first `sinks` positions do not count. */
export function past(
  { ops, at, queries: q, rope: model }: Place & { readonly queries: Tensor; readonly rope: Rope },
  sinks: number,
): Past {
  const [H = 1, w = 1, d = 1] = q.shape,
    places = Uint32Array.from({ length: w }, (_, i) => Math.max(0, at.length - w + i));
  const skip = Math.min(w - 1, places.filter((x) => x < sinks).length),
    count = w - skip;
  const counts = ops.from({ data: Float32Array.from({ length: w }, (_, i) => Number(i >= skip)), shape: [1, w] });
  const before = turn(ops, q, model, places, ops.from({ data: Uint32Array.from(places.keys()), shape: [1, w] }), true);
  return { before, counts, count, mean: ops.reshape(ops.matmul(ops.div(counts, count), before), [H, 1, d]) };
}
