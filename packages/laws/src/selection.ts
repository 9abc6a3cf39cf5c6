import fc from 'fast-check';
import type { Piece } from '@kv/core';
import { random } from './random.ts';
import { scene, sceneSpecs } from './scene.ts';
import type { Scene, SceneSpec } from './scene.ts';
import type { StartNumbers } from './stage.ts';
import { randomScores, scoreSpecs } from './transform.ts';
import type { ScoreSpec } from './transform.ts';

/** A random selection: a cache, scores, and the numbers of forced, banned and spare slots. */
export interface SelectSpec {
  readonly spec: SceneSpec;
  readonly scores: ScoreSpec;
  readonly forced: number;
  readonly banned: number;
  readonly spare: number;
}
/** One row's part of a selection. */
export interface SelectionRow {
  readonly n: number;
  readonly budget: number;
  readonly scores: readonly number[];
  readonly forced: readonly boolean[];
  readonly banned: readonly boolean[];
}
export interface SelectCase {
  readonly on: Scene;
  readonly given: readonly StartNumbers[];
  /** `[layer][row]`, as many rows as the scores have. */
  readonly rows: readonly (readonly SelectionRow[])[];
}

export const selectSpecs = (piece: Piece): fc.Arbitrary<SelectSpec> =>
  fc.record({
    spec: sceneSpecs(),
    scores: scoreSpecs(piece).map((s) => ({ ...s, rows: 'kv' as const })),
    forced: fc.nat(3),
    banned: fc.nat(3),
    spare: fc.nat(5),
  });
export const has = (set: readonly number[], i: number): boolean => set.includes(i);

/**
 * Returns scores, masks and budgets of the rows that select, those of the scores: forced and banned slots are disjoint,
 * budgets cover the forced ones; `all` covers every slot.
 */
export function realise(
  { spec, scores, forced, banned, spare }: SelectSpec,
  {
    budget = 'some',
    pad = 0,
    more = 0,
  }: { readonly budget?: 'some' | 'all'; readonly pad?: number | undefined; readonly more?: number } = {},
): SelectCase {
  const cache = scene(spec, pad),
    base = randomScores(cache, scores, pad),
    on = {
      spec,
      layers: cache.layers.map((layer, l) => ({ ...layer, at: { ...layer.at, selectRows: base[l].rows } })),
    };
  const rows = on.layers.map(({ lengths, seed, at: { selectRows } }, l) => {
    const next = random(seed + 11);
    return Array.from({ length: selectRows }, (_, g): SelectionRow => {
      const n = lengths[Math.floor((g * lengths.length) / selectRows)];
      const order = Array.from({ length: n }, (_, i) => [next(), i] as const)
        .sort((a, b) => a[0] - b[0])
        .map(([, i]) => i);
      const f = order.slice(0, Math.min(forced, n)),
        b = order.slice(f.length, f.length + banned);
      const flags = (set: readonly number[]): boolean[] => Array.from({ length: n }, (_, i) => has(set, i));
      return {
        n,
        budget: (budget === 'all' ? n : f.length) + spare + more,
        forced: flags(f),
        banned: flags(b),
        scores: Array.from(base[l].scores.subarray(g * spec.slots, g * spec.slots + n)),
      };
    });
  });
  const mask = (heads: readonly SelectionRow[], of: 'forced' | 'banned'): Float32Array =>
    Float32Array.from(
      heads.flatMap((r) => Array.from({ length: spec.slots }, (_, i) => (i < r.n ? Number(r[of][i]) : pad))),
    );
  return {
    on,
    rows,
    given: rows.map((heads, l) => ({
      ...base[l],
      budgets: heads.map((r) => r.budget),
      ...(forced > 0 && { forced: mask(heads, 'forced') }),
      ...(banned > 0 && { banned: mask(heads, 'banned') }),
    })),
  };
}
