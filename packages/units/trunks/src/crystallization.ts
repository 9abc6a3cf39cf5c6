import { KvError, number, oneOf, unitTransform } from '@kv/core';
import type { ResolvedOptions, StepContext, Tensor, WithUnits } from '@kv/core';
import { chunk, coAttention } from './co-attention.ts';
import type { CoAttention } from './edges.ts';
import { centralities, unitGraph } from './graph.ts';

type Crystal = StepContext & Pick<WithUnits, 'units' | 'unitScores' | 'forced'>;

/** Weight of M, the unit's own content, against D. */
export const alpha = number(1, "Weight of a unit's own content against its place in the graph.", { least: 0 });

/** Options of D. */
export const placing = {
  steepness: number(5, 'How steeply D rises with the degree of a unit, s.', { least: 0 }),
  chunk,
};

/** Returns the unit of every position, which the graph of co-attention needs. */
export function unitsByPosition(piece: string, { units: { byPosition } }: Crystal): Uint32Array {
  if (!byPosition) throw new KvError(piece, 'needs units cut by position, such as trunks() or sentences()');
  return byPosition;
}

/** Returns D of every unit, `[1, units]`. */
function structure(
  piece: string,
  ctx: Crystal & { readonly coAttention: CoAttention },
  { steepness }: ResolvedOptions<typeof placing>,
): Tensor {
  const { count } = ctx.units;
  const graph = unitGraph(ctx.coAttention, unitsByPosition(piece, ctx), count);
  return ctx.ops.from({ data: centralities(graph, count, steepness), shape: [1, count] });
}

/**
 * Returns ln(1 + score) of every unit, min-max over the units that a row holds and that no slot forces,
 * `[rows, units]`.
 */
export function relief({ ops, units: { of, count }, unitScores, forced }: Crystal): Tensor {
  const height = ops.map('log1p', ops.max(0, unitScores));
  const held = ops.groupSlots('max', ops.fill(of, 1), of, count);
  const open = ops.mul(held, ops.not(forced && ops.groupSlots('max', forced, of, count)));
  const edge = (kind: 'min' | 'max', none: number): Tensor => ops.reduce(kind, ops.where(open, height, none), 'slots');
  const low = edge('min', 1e30);
  const span = ops.max(0, ops.sub(edge('max', -1e30), low));
  return ops.min(1, ops.max(0, ops.div(ops.sub(height, low), ops.add(span, 1e-8))));
}

/**
 * Trunk centrality D: how strongly co-attention edges tie a unit to the others, 0 .. 1.
 *
 * @remarks CrystalCache, eq. 24 to 27. Replaces the unit scores by one row `[1, units]`; α = 0 of the paper's ablation.
 */
export const centrality = unitTransform(
  'centrality',
  {
    source: 'CrystalCache, eq. 27',
    says: 'How strongly co-attention ties a unit to the others.',
    options: placing,
    needs: ({ chunk: size }) => [coAttention(size)],
  },
  (ctx, o) => structure('centrality', ctx, o),
);

/**
 * Unit scores as ln(1 + score), min-max over the units that are not protected: the M side alone (D = 0 of the paper's
 * ablation).
 *
 * @remarks CrystalCache, eq. 28. Unit scores `[rows, units]`, at least 0; a unit with a forced slot is protected.
 */
export const unitLogMinMax = unitTransform(
  'unitLogMinMax',
  { source: 'CrystalCache, eq. 28', says: 'Logarithms of unit scores, brought to 0..1.' },
  (ctx) => relief(ctx),
);

/**
 * Crystal score: max(D, α M), so that a unit survives by its place in the graph or by its own content. With `join`
 * 'mean' it is (D + α M) / 2, where it needs both.
 *
 * @remarks CrystalCache, eq. 28 and 29: D as in `centrality`, M as in `unitLogMinMax`. Unit scores `[rows, units]`.
 */
export const crystallization = unitTransform(
  'crystallization',
  {
    source: 'CrystalCache, eq. 29',
    says: 'A unit survives by its place in the graph of co-attention or by its own content.',
    options: {
      alpha,
      join: oneOf(['max', 'mean'], 'max', 'The larger of the two, or their mean, to compare it with.'),
      ...placing,
    },
    needs: ({ chunk: size }) => [coAttention(size)],
  },
  (ctx, { alpha: weight, join, ...o }) => {
    const { ops } = ctx,
      content = ops.mul(relief(ctx), weight),
      place = structure('crystallization', ctx, o);
    return join === 'max' ? ops.max(content, place) : ops.div(ops.add(content, place), 2);
  },
);
