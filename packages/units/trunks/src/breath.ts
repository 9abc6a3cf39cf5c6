import { count, keys, onStep, oneOf, positions, share, state, unitTransform, whole } from '@kv/core';
import type { Ops, StepContext, State, Tensor } from '@kv/core';
import { carryKernel, holding, resonance } from './breath-kernels.ts';
import { coAttention } from './co-attention.ts';
import { alpha, placing, relief, unitsByPosition } from './crystallization.ts';
import { centralities, pairEnds, pairWeights, unitGraph } from './graph.ts';

/** A unit is active if more than half of its tokens lie above this share of the largest inverse norm. */
const ACTIVE = { share: 0.5, above: 0.3 };
/** Edges below this weight are removed. */
const PRUNE = 0.05;
/** D and M are divided by this in the exponent of the decay. */
const HALF = 2;
const remembered = <N extends string>(name: N, kind: 'unit' | 'position'): State<N> => ({
  ...state(name, { kind, rows: 'model', init: -1 }),
  id: `state.breath.${name}`,
});
const trunk = remembered('trunk', 'position');
const strength = remembered('strength', 'unit');
const impact = remembered('impact', 'unit');
const edges = remembered('edges', 'unit');
const held = remembered('held', 'unit');

/** 1 where more than half of the tokens that a unit still holds have a small key in the first layer, `[1, units]`. */
function activity({ ops, at }: StepContext, units: number, table: Uint32Array, k: Tensor, p: Tensor): Tensor {
  const byPlace = (x: Tensor): Tensor => ops.groupRows('sum', ops.groupSlots('sum', x, p, at.length), 1); // [1, N]
  const here = ops.norm(k);
  const heads = byPlace(ops.fill(here, 1));
  const size = ops.div(byPlace(ops.div(1, ops.max(here, 1e-12))), ops.max(heads, 1));
  const hot = ops.less(ops.mul(ops.reduce('max', size, 'slots'), ACTIVE.above), size);
  const present = ops.min(heads, 1);
  const of = ops.from({ data: table, shape: [1, at.length] }, 'u32');
  const perUnit = (x: Tensor): Tensor => ops.groupSlots('sum', x, of, units);
  return ops.less(ops.mul(perUnit(present), ACTIVE.share), perUnit(ops.mul(hot, present)));
}

/** Tokens that each of `count` units holds, over all heads of the layer, `[1, count]`. */
const holds = (ops: Ops, of: Tensor, p: Tensor, like: Tensor): Tensor =>
  ops.kernel(holding, { positions: p, unitOf: of, like });

const decay = share(0.05, 'Share of D that a generated token takes where D and M are 0.');
/**
 * Step hook, once a generated token: D <- r D, with r the share of the unit's tokens that was not evicted since the
 * last step, then D <- D - β D exp(-D M / 2).
 */
const ageing = onStep(
  'ageing',
  {
    source: 'CrystalCache, eq. 34',
    options: { decay },
    needs: [positions, trunk, strength, impact, held],
    reach: 'model',
  },
  ({ ops, positions: p, trunk: of, strength: d, impact: m, held: before }, { decay: beta }) => {
    const now = holds(ops, of, p, d);
    const left = ops.where(ops.less(0, before), ops.min(1, ops.div(now, ops.max(before, 1))), 1);
    const rest = ops.mul(ops.max(d, 0), left);
    const rate = ops.mul(ops.exp(ops.div(ops.mul(ops.mul(rest, ops.max(m, 0)), -1), HALF)), beta);
    return { strength: ops.where(ops.less(d, 0), d, ops.max(0, ops.sub(rest, ops.mul(rate, rest)))), held: now };
  },
);

/**
 * Crystal score max(D, α M) that is updated while tokens are generated. D decays with every token. Every `interval`
 * tokens, units with small keys send pulses over at most two edges of the trunk graph, edges between two such units
 * grow and others fade, and the cache is dissolved to its budget again with nothing protected.
 *
 * @remarks CrystalCache, section 3.8, eq. 34 and 36 to 40, after eq. 28 and 29 at the end of the prompt; replaces
 * `crystallization`. M is the unit's first value. A unit's D shrinks by the share of it that was evicted. A pulse
 * searches breadth first and reaches a unit once, neighbours in the order of the text; pulses of several units add up
 * as 1 - D' = (1 - D) Π (1 - gain p). With `pulses` 'walks' a unit gains by every walk that reaches it. Two active
 * units without an edge get one (eq. 39). Use with `cadence({ every: interval })`, over units cut with `run` =
 * `interval`; an event between two breaths computes everything again, as the first does. Keeps D, M, the weight of
 * every pair of units, and tokens held by unit. Costs O(units) a token; a breath the new rows of the first layer,
 * O(units^2), and O(units) for each active unit and each unit that it has no edge to.
 */
export const breath = unitTransform(
  'breath',
  {
    source: 'CrystalCache, section 3.8',
    says: 'A crystal score that decays while tokens are generated, and is renewed along the graph.',
    options: {
      interval: count(64, 'tokens', 'Generated tokens between two breaths.'),
      alpha,
      decay,
      hops: whole(2, 'edges', 'Edges that a pulse crosses at most; 0 sends none.', { most: 2 }),
      pulses: oneOf(
        ['search', 'walks'],
        'search',
        'How a pulse spreads: breadth first, reaching a unit once, or along every walk.',
      ),
      gain: share(0.15, 'Share of what D lacks that a pulse of 1 gives.'),
      bond: share(0.05, 'What an edge between two active units gains.'),
      fade: share(0.99, 'What is left of every other edge.'),
      ...placing,
    },
    needs: ({ chunk: size }) => [coAttention(size), positions, keys, trunk, strength, impact, edges, held],
    hooks: (o) => [ageing({ decay: o.decay })],
    acrossLayers: (layers, { interval, hops, pulses, gain, bond, fade, steepness }) => {
      const [first] = layers;
      const { ops, at, units, unitScores, positions: p } = first;
      const table = unitsByPosition('breath', first);
      const graph = unitGraph(first.coAttention, table, units.count);
      const breathes = at.step > 0 && at.step % interval === 0;
      const row = (data: ArrayLike<number>): Tensor =>
        ops.from({ data: Float32Array.from(data), shape: [1, data.length] });
      const kept = (before: Tensor, fresh: Tensor): Tensor =>
        breathes ? ops.kernel(carryKernel, { before, fresh }) : fresh;
      const m = kept(first.impact, ops.groupRows('mean', ops.float(unitScores), 1));
      const before = kept(first.strength, row(centralities(graph, units.count, steepness)));
      const weight = kept(first.edges, row(pairWeights(graph, units.count)));
      const breathe = (): { readonly d: Tensor; readonly weight: Tensor } => {
        const { a, b } = pairEnds(units.count);
        const lit = activity(first, units.count, table, first.keys, p); // [1, units]
        const end = (data: Uint32Array): Tensor => ops.take(lit, ops.from({ data, shape: [1, data.length] }, 'u32'));
        const rest = ops.kernel(resonance, { weight, lit }, { hops, gain, once: Number(pulses === 'search') });
        const now = ops.where(ops.mul(end(a), end(b)), ops.min(1, ops.add(weight, bond)), ops.mul(weight, fade));
        return { d: ops.sub(1, ops.mul(ops.sub(1, before), rest)), weight: ops.mul(now, ops.atLeast(now, PRUNE)) };
      };
      const next = breathes ? breathe() : { d: before, weight };
      const byPlace = row(table);
      return {
        breathes,
        m,
        d: next.d,
        state: {
          trunk: byPlace,
          strength: next.d,
          impact: m,
          edges: units.count < 2 ? row([-1]) : next.weight, // a single unit has no pair
          held: holds(ops, byPlace, p, next.d),
        },
      };
    },
  },
  ({ acrossLayers: { breathes, m, d, state: next }, ...layer }, o) => {
    const content = relief({ ...layer, unitScores: m, forced: breathes ? 0 : layer.forced });
    return {
      unitScores: layer.ops.max(layer.ops.mul(content, o.alpha), d),
      release: breathes,
      ...(layer.at.layer === 0 && { state: next }),
    };
  },
);
