import { checkNumber, isPositiveInteger, keys, KvError, positions, state } from '@kv/core';
import { modelUnitTransform, onStep } from '@kv/core/old';
import type { Ops, State, Tensor, UnitTransform } from '@kv/core';
import type { Common } from '@kv/core/old';
import { carried, holding, resonance } from './breath-kernels.ts';
import { coAttention } from './co-attention.ts';
import { relief } from './crystallization.ts';
import { centralities, unitGraph } from './graph.ts';

export interface BreathOptions {
  /** Generated tokens between two breaths. @defaultValue 64 */
  readonly interval?: number;
  /** Weight of M. @defaultValue 1 */
  readonly alpha?: number;
  /** Share of D that a generated token takes where D and M are 0, β_0. @defaultValue 0.05 */
  readonly decay?: number;
  /** Edges that a pulse crosses at most; 0 sends none. @defaultValue 2 */
  readonly hops?: number;
  /** Share of what D lacks that a pulse of 1 gives, α_res. @defaultValue 0.15 */
  readonly gain?: number;
  /** What an edge between two active units gains, η. @defaultValue 0.05 */
  readonly bond?: number;
  /** What is left of every other edge, γ. @defaultValue 0.99 */
  readonly fade?: number;
}

/** An active unit has more than half of its tokens above this share of the largest inverse norm. */
const ACTIVE = { share: 0.5, above: 0.3 };
/** Edges below this are gone. */
const PRUNE = 0.05;
/** D and M count against this in the exponent of the decay. */
const HALF = 2;
const own = <N extends string>(name: N, kind: 'unit' | 'position'): State<N> => ({
  ...state(name, { kind, rows: 'model', init: -1 }),
  id: `state.breath.${name}`,
});
const trunk = own('trunk', 'position'),
  strength = own('strength', 'unit'),
  impact = own('impact', 'unit'),
  edges = own('edges', 'unit'),
  held = own('held', 'unit');

/** 1 where more than half of what a unit still holds has a small key in the first layer, `[1, units]`. */
function activity(
  { ops, at }: Common,
  { count, table }: { readonly count: number; readonly table: Uint32Array },
  k: Tensor,
  p: Tensor,
): Tensor {
  const byPlace = (x: Tensor): Tensor => ops.groupRows('sum', ops.groupSlots('sum', x, p, at.length), 1); // [1, N]
  const here = ops.norm(k),
    heads = byPlace(ops.fill(here, 1)),
    size = ops.div(byPlace(ops.div(1, ops.max(here, 1e-12))), ops.max(heads, 1));
  const hot = ops.less(ops.mul(ops.reduce('max', size, 'slots'), ACTIVE.above), size),
    held = ops.min(heads, 1),
    of = ops.from({ data: table, shape: [1, at.length] }, 'u32');
  return ops.less(
    ops.mul(ops.groupSlots('sum', held, of, count), ACTIVE.share),
    ops.groupSlots('sum', ops.mul(hot, held), of, count),
  );
}

/** Tokens that each of `count` units holds, over all heads of the layer, `[1, count]`. */
const holds = (ops: Ops, of: Tensor, p: Tensor, like: Tensor): Tensor =>
  ops.kernel(holding, { positions: p, unitOf: of, like });

/**
 * D after one generated token, and after what left its units since the last one: D <- r D, then D <- D - β D exp(-D M /
 * 2).
 */
function aged(ops: Ops, [d, m, before, now]: readonly [Tensor, Tensor, Tensor, Tensor], decay: number): Tensor {
  const left = ops.where(ops.less(0, before), ops.min(1, ops.div(now, ops.max(before, 1))), 1),
    rest = ops.mul(ops.max(d, 0), left);
  const rate = ops.mul(ops.exp(ops.div(ops.mul(ops.mul(rest, ops.max(m, 0)), -1), HALF)), decay);
  return ops.where(ops.less(d, 0), d, ops.max(0, ops.sub(rest, ops.mul(rate, rest))));
}

/**
 * Crystal score max(D, α M) that lives on while tokens are generated. D decays with every token; every `interval`
 * tokens units whose keys are small send pulses over at most two edges of the
 * trunk graph, edges between two such units grow and others fade, and what nothing protects any more is dissolved
 * again.
 *
 * @remarks CrystalCache, section 3.8, eq. 34 and 36 to 40, after eq. 28 and 29 at the end of the prompt, in the place
 * of `crystallization`. M is the unit's when it was first seen. A unit's D shrinks
 * by the share that left it. Pulses add up without an order, 1 - D' = (1 - D) Π (1 - gain p) over all walks of at most
 * `hops` edges that do not come back to where they start, the paper's breadth-first
 * search without its order. Beside `cadence({ every: interval })`, over units cut with `run` = `interval`; an event
 * between two breaths starts anew, as the first does. Keeps D, M, edges and tokens held by unit. Costs O(units + edges)
 * a token; a breath the new rows of the first layer and O(edges^2) at most.
 * @throws KvError for an option outside its range.
 */
export function breath({
  interval = 64,
  alpha = 1,
  decay = 0.05,
  hops = 2,
  gain = 0.15,
  bond = 0.05,
  fade = 0.99,
}: BreathOptions = {}): UnitTransform<'breath'> {
  checkNumber('breath', 'interval', interval, 'a positive whole number of tokens', isPositiveInteger);
  checkNumber('breath', 'alpha', alpha, 'a number of at least 0', (a) => a >= 0 && Number.isFinite(a));
  checkNumber('breath', 'hops', hops, '0, 1 or 2 edges', (h) => h === 0 || h === 1 || h === 2);
  for (const [name, value] of Object.entries({ decay, gain, bond, fade }))
    checkNumber('breath', name, value, 'a number from 0 to 1', (x) => x >= 0 && x <= 1);
  const options = { interval, alpha, decay, hops, gain, bond, fade };
  const score = modelUnitTransform(
    { name: 'breath', options },
    [coAttention, positions, keys, trunk, strength, impact, edges, held],
    (layers) => {
      const first = layers[0],
        { ops, at, units, unitScores, coAttention: links } = first,
        { count, byPosition: table } = units;
      if (!table) throw new KvError('breath', 'needs units cut by position, such as trunks() or sentences()');
      const graph = unitGraph(links, table, count);
      const breathes = at.step > 0 && at.step % interval === 0,
        row = (data: readonly number[] | Float32Array): Tensor =>
          ops.from({ data: Float32Array.from(data), shape: [1, data.length] });
      const kept = (before: Tensor, fresh: Tensor): Tensor =>
        breathes ? ops.kernel(carried, { before, fresh }) : fresh;
      const ends = (list: readonly number[]): Tensor =>
          ops.from(
            { data: Uint32Array.from(list.length > 0 ? list : [0]), shape: [1, Math.max(1, list.length)] },
            'u32',
          ),
        a = ends(graph.a),
        b = ends(graph.b);
      const m = kept(first.impact, ops.groupRows('mean', ops.add(unitScores, 0), 1)),
        before = kept(first.strength, row(centralities(graph, count))),
        weight = kept(first.edges, row(graph.weight.length > 0 ? graph.weight : [0]));
      const active = activity(first, { count, table }, first.keys, first.positions),
        both = ops.mul(ops.take(active, a), ops.take(active, b));
      const now = ops.where(both, ops.min(1, ops.add(weight, bond)), ops.mul(weight, fade)),
        grown = ops.mul(now, ops.mul(ops.atLeast(now, PRUNE), ops.less(0, weight)));
      const d = breathes
        ? ops.sub(1, ops.mul(ops.sub(1, before), ops.kernel(resonance, { a, b, weight, lit: active }, { hops, gain })))
        : before;
      const byPlace = row(Float32Array.from(table)),
        write = {
          trunk: byPlace,
          strength: d,
          impact: m,
          edges: graph.weight.length === 0 ? row([-1]) : breathes ? grown : weight,
          held: holds(ops, byPlace, first.positions, d),
        };
      return layers.map((layer, l) => ({
        unitScores: layer.ops.max(
          layer.ops.mul(relief({ ...layer, unitScores: m, forced: breathes ? undefined : layer.forced }), alpha),
          d,
        ),
        release: breathes,
        ...(l === 0 && { state: write }),
      }));
    },
  );
  const ageing = onStep(
    { name: 'ageing', options: { decay } },
    [positions, trunk, strength, impact, held],
    ({ ops, positions: p, trunk: of, strength: d, impact: m, held: before }) => {
      const count = holds(ops, of, p, d);
      return { strength: aged(ops, [d, m, before, count], decay), held: count };
    },
    'model',
  );
  return { ...score, atoms: [...score.atoms, ...ageing.atoms] };
}
