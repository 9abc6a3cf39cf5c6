import { checkNumber, KvError } from '@kv/core';
import { unitTransform } from '@kv/core/old';
import type { Tensor, Units, UnitTransform } from '@kv/core';
import type { Common } from '@kv/core/old';
import { coAttention } from './co-attention.ts';
import type { CoAttention } from './co-attention.ts';
import { centralities, unitGraph } from './graph.ts';

interface Given extends Common {
  readonly units: Units;
  readonly unitScores: Tensor;
  readonly forced: Tensor | undefined;
}

/** D of every unit, `[1, units]`. */
function structure(
  { ops, units: { count, byPosition }, coAttention: edges }: Given & { readonly coAttention: CoAttention },
  piece: string,
): Tensor {
  if (!byPosition) throw new KvError(piece, 'needs units cut by position, such as trunks() or sentences()');
  return ops.from({ data: centralities(unitGraph(edges, byPosition, count), count), shape: [1, count] });
}

/** ln(1 + score) of every unit, min-max over the units that a row holds and that nothing forces, `[rows, units]`. */
export function relief({ ops, units: { of, count }, unitScores, forced }: Given): Tensor {
  const height = ops.map('log1p', ops.max(0, unitScores));
  const held = ops.groupSlots('max', ops.fill(of, 1), of, count),
    touched = forced && ops.groupSlots('max', forced, of, count);
  const open = touched ? ops.mul(held, ops.less(touched, 1)) : held;
  const edge = (kind: 'min' | 'max', none: number): Tensor => ops.reduce(kind, ops.where(open, height, none), 'slots');
  const low = edge('min', 1e30),
    span = ops.max(0, ops.sub(edge('max', -1e30), low));
  return ops.min(1, ops.max(0, ops.div(ops.sub(height, low), ops.add(span, 1e-8))));
}

/**
 * Trunk centrality D: how strongly co-attention edges tie a unit to the others, 0 .. 1.
 *
 * @remarks CrystalCache, eq. 24 to 27. One row of unit scores `[1, units]`, in the place of those before; α = 0 of the
 * paper's ablation.
 */
export const centrality = (): UnitTransform<'centrality'> =>
  unitTransform('centrality', [coAttention], (ctx) => structure(ctx, 'centrality'));

/**
 * Unit scores as ln(1 + score), min-max over the units that are not protected: the M side alone (D = 0 of the paper's
 * ablation).
 *
 * @remarks CrystalCache, eq. 28. Unit scores `[rows, units]`, at least 0; a unit with a forced slot is protected.
 */
export const standout = (): UnitTransform<'standout'> => unitTransform('standout', [], relief);

/**
 * Crystal score: max(D, α M), so that a unit survives by its place in the graph or by its own content.
 *
 * @remarks CrystalCache, eq. 28 and 29: D as in `centrality`, M as in `standout`. Unit scores `[rows, units]`.
 * @throws KvError if `alpha` is negative.
 */
export function crystallization({
  alpha = 1,
}: {
  /** Weight of M. @defaultValue 1 */ readonly alpha?: number;
} = {}): UnitTransform<'crystallization'> {
  checkNumber('crystallization', 'alpha', alpha, 'a number of at least 0', (a) => a >= 0 && Number.isFinite(a));
  return unitTransform({ name: 'crystallization', options: { alpha } }, [coAttention], (ctx) =>
    ctx.ops.max(ctx.ops.mul(relief(ctx), alpha), structure(ctx, 'crystallization')),
  );
}
