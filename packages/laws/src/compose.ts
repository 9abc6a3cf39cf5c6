import fc from 'fast-check';
import {
  attentionWindow,
  compose as real,
  id,
  keys,
  mandatory,
  minMax,
  normalize,
  pool,
  reduceHeads,
  softmax,
  zScore,
  allocator,
  scorer,
  selector,
  weightScorer,
} from '@kv/core';
import { cpu } from '@kv/cpu';
import { compile } from '@kv/core/engine';
import type { Piece } from '@kv/core';
import { claim, lawsOf } from './law.ts';
import type { Claim, Claims } from './law.ts';
import { scene, sceneSpecs } from './scene.ts';
import type { Scene } from './scene.ts';
import { play, rowsOf, stage } from './stage.ts';
import { randomScores } from './transform.ts';

/** A function that composes pieces into one. */
export type Compose = (...pieces: Piece[]) => Piece;

const short = (layer: number): number => (layer % 2 === 0 ? 1 : 2);
/** Small pieces of every kind, from which partial policies are drawn. */
const POOL: readonly Piece[] = [
  weightScorer('window', { needs: [attentionWindow(4)] }, ({ attention }) => attention)(),
  scorer('norm', { needs: [keys] }, ({ ops, keys: k }) => ops.sub(0, ops.norm(k)))(),
  pool({ kernel: 3 }),
  zScore(),
  softmax(),
  minMax(),
  normalize(),
  reduceHeads({ kind: 'max' }),
  mandatory({ sinks: 1, recent: 1 }),
  allocator('short', {}, (plan) => ({
    ...plan,
    budgets: plan.budgets.map((heads, l) => heads.map((b) => Math.max(0, b - short(l)))),
  }))(),
  selector('best', {}, ({ ops, scores, budgets, ...masks }) => ops.select(scores, budgets, masks))(),
] as readonly unknown[] as readonly Piece[];

/** A chain of 1 to 6 pieces that fit, with two places to cut it. */
interface Chain {
  readonly pieces: readonly Piece[];
  readonly cuts: readonly [number, number];
}
const fits = (pieces: readonly Piece[]): boolean => {
  try {
    (real as Compose)(...pieces);
    return true;
  } catch {
    return false;
  }
};
const chains: fc.Arbitrary<Chain> = fc
  .record({ picks: fc.array(fc.nat(POOL.length - 1), { minLength: 1, maxLength: 12 }), a: fc.nat(6), b: fc.nat(6) })
  .map(({ picks, a, b }) => {
    const pieces = picks
      .map((i) => POOL[i])
      .reduce<readonly Piece[]>((run, p) => (run.length < 6 && fits([...run, p]) ? [...run, p] : run), []);
    const [low = 0, high = 0] = [a % (pieces.length + 1), b % (pieces.length + 1)].sort((x, y) => x - y);
    return { pieces, cuts: [low, high] as const };
  });
const grouped = (compose: Compose, { pieces, cuts: [a, b] }: Chain): readonly Piece[] => {
  const [x, y, z] = [pieces.slice(0, a), pieces.slice(a, b), pieces.slice(b)].map((part) =>
    part.length === 1 ? part[0] : part.length === 0 ? undefined : compose(...part),
  );
  const join = (...parts: (Piece | undefined)[]): Piece => {
    const there = parts.filter((p) => p !== undefined);
    return there.length === 1 ? there[0] : compose(...there);
  };
  return [join(x && y ? join(x, y) : (x ?? y), z), join(x, y && z ? join(y, z) : (y ?? z))];
};

/** Returns all results of running a piece on a scene, as text. */
function seen(piece: Piece, on: Scene): string {
  const from = piece.from.includes('start')
    ? undefined
    : randomScores(on, {
        rows: 'kv',
        phase: piece.from.includes('scores') ? 'scores' : 'weights',
        kind: 'spread',
        coarse: false,
      });
  const plans = compile(piece).steps.map(
    (s) => s.plan?.({ budgets: [[5]], lengths: [[5]], floor: 0, notes: [] }).budgets,
  );
  return JSON.stringify([
    plans,
    play(piece, stage(on, cpu.ops, {}, from), cpu.ops).map((d, l) =>
      (['scores', 'forced', 'banned', 'kept'] as const).map((k) => d[k] && [...rowsOf(d[k], on.layers[l]).data]),
    ),
  ]);
}
const same = (what: string, got: string, want: string): void =>
  claim(got === want, () => `${what}: ${got} is not ${want}`);
const phases = ({ from, to }: Piece): string => `${[...from].sort().join('|')} -> ${to}`;
type Property = Claim<Compose>;
const regrouped =
  (what: string, show: (piece: Piece, on: Scene) => string): Property =>
  (compose) =>
    fc.property(chains, sceneSpecs(), (chain, spec) => {
      const on = scene(spec),
        flat = chain.pieces.length === 1 ? chain.pieces[0] : compose(...chain.pieces);
      for (const piece of grouped(compose, chain)) same(what, show(piece, on), show(flat, on));
    });

/** Claims about `compose`, over partial policies drawn from real pieces. */
export const composition = {
  /** Regrouping changes no result of a run. */
  behaviour: regrouped('run', seen),
  /** Regrouping changes no label. */
  label: regrouped('label', (p) => p.label),
  /** Regrouping changes no phase. */
  phases: regrouped('phases', phases),
  /** `id` before or after a piece changes nothing. */
  unit: (compose) =>
    fc.property(chains, sceneSpecs(), ({ pieces: [piece = id as Piece] }, spec) => {
      const on = scene(spec),
        show = (p: Piece): string => `${p.label}: ${phases(p)} ${seen(p, on)}`;
      for (const beside of [compose(id as Piece, piece), compose(piece, id as Piece)])
        same('composed with id', show(beside), show(piece));
    }),
  /** Composing nothing gives `id`. */
  empty: (compose) =>
    fc.property(fc.constant(0), () =>
      same(
        'compose()',
        `${compose().label}${phases(compose())}${compose().atoms.length}`,
        `${id.label}${phases(id as Piece)}0`,
      ),
    ),
} satisfies Claims<Compose>;

/** The laws of `compose`. */
export const composeLaws = lawsOf(composition);
