import { compile, cpu, isState } from '@kv/core';
import type { Draft, Piece, Tensor } from '@kv/core';
import { agree, all, same } from './compare.ts';
import { claim, TOLERANCE } from './law.ts';
import type { LawOptions } from './law.ts';
import type { Layer, Scene } from './scene.ts';
import { onCpu, onTrace, play, rowsOf, stage } from './stage.ts';
import type { Given, Rows } from './stage.ts';

/** A case of a piece that leaves scores: a cache, and scores to start from where the piece wants some. */
export interface ScoreCase {
  readonly on: Scene;
  readonly given?: readonly Given[];
}

/** Scores of every layer. @throws where a draft has none. */
export function scoresOf(piece: Piece, drafts: readonly Draft[], layers: readonly Layer[]): readonly Rows[] {
  return drafts.map((draft, i) => {
    claim(draft.scores !== undefined, () => `'${piece.label}' left no scores in layer ${i}`);
    return rowsOf(draft.scores!, layers[i]);
  });
}
const MASKS = ['forced', 'banned'] as const;
/** Scores and masks under a name each. */
export function results(
  piece: Piece,
  drafts: readonly Draft[],
  layers: readonly Layer[],
): readonly (readonly [name: string, rows: Rows])[] {
  const masks = drafts.flatMap((d, i) =>
    MASKS.filter((m) => d[m]).map((m) => [`${m} slots of layer ${i}`, rowsOf(d[m] as Tensor, layers[i])] as const),
  );
  return [...scoresOf(piece, drafts, layers).map((rows, i) => [`scores of layer ${i}`, rows] as const), ...masks];
}
const compare = (a: ReturnType<typeof results>, b: ReturnType<typeof results>, tolerance: number): void => {
  claim(a.length === b.length, () => `expected ${b.map(([n]) => n).join(', ')}, got ${a.map(([n]) => n).join(', ')}`);
  for (const [i, [name, rows]] of a.entries()) agree(name, rows, b[i][1], tolerance);
};

/** True where a piece can tell slots apart by their place, as far as its needs say. */
export const readsPlaces = (piece: Piece): boolean =>
  compile(piece).steps.some((s) =>
    s.needs.some((n) => n.id === 'positions' || n.id === 'tokens' || (isState(n) && n.state.kind !== 'sequence')),
  );

/**
 * Scores have one column a slot, in as many rows as there are query heads, KV heads or layers; masks likewise, of 0 and
 * 1.
 */
export function shape(piece: Piece, { on, given }: ScoreCase, options: LawOptions): void {
  const drafts = onCpu(piece, on, options, given);
  for (const [name, x] of results(piece, drafts, on.layers)) {
    const { kvHeads, group, slots } = on.spec;
    claim(
      [1, kvHeads, kvHeads * group].includes(x.rows) && x.slots === slots,
      () => `${name}: expected [${kvHeads * group} | ${kvHeads} | 1, ${slots}], got [${x.rows}, ${x.slots}]`,
    );
    if (!name.startsWith('scores')) all(name, x, '0 or 1', (m) => m === 0 || m === 1);
  }
}
/** Every valid score is a finite number. */
export function finite(piece: Piece, { on, given }: ScoreCase, options: LawOptions): void {
  for (const [i, x] of scoresOf(piece, onCpu(piece, on, options, given), on.layers).entries())
    all(`scores of layer ${i}`, x, 'finite', Number.isFinite);
}
/** The same signals give the same bits again, and are left as they were. */
export function pure(piece: Piece, { on, given }: ScoreCase, options: LawOptions): void {
  const set = stage(on, cpu.ops, options, given);
  const first = results(piece, play(piece, set, cpu.ops), on.layers).map(
    ([name, x]) => [name, { ...x, data: x.data.slice() }] as const,
  );
  const before = set.arrays.map((a) => a.slice());
  const second = results(piece, play(piece, set, cpu.ops), on.layers);
  const fresh = stage(on, cpu.ops, options, given);
  play(piece, fresh, cpu.ops);
  claim(
    set.arrays.every((a, i) => same(a, before[i])) && fresh.arrays.every((a, i) => same(a, before[i] ?? a)),
    () => 'the piece wrote into its signals',
  );
  compare(second, first, 0);
}
/** Runs where every host read throws, with the same result. */
export function traced(piece: Piece, { on, given }: ScoreCase, options: LawOptions): void {
  compare(
    results(piece, onTrace(piece, on, options, given), on.layers),
    results(piece, onCpu(piece, on, options, given), on.layers),
    0,
  );
}
/** What stands beyond a row's valid slots changes nothing. */
export function padding(
  piece: Piece,
  { on, given }: ScoreCase,
  other: ScoreCase,
  { tolerance = TOLERANCE, ...options }: LawOptions,
): void {
  compare(
    results(piece, onCpu(piece, other.on, options, other.given), on.layers),
    results(piece, onCpu(piece, on, options, given), on.layers),
    tolerance,
  );
}
/** Weights are at least 0. */
export function atLeast0(piece: Piece, { on, given }: ScoreCase, options: LawOptions): void {
  for (const [i, x] of scoresOf(piece, onCpu(piece, on, options, given), on.layers).entries())
    all(`weights of layer ${i}`, x, 'at least 0', (w) => !(w < 0));
}
/** No head has more forced slots than the piece's declared floor. */
export function floor(piece: Piece, { on, given }: ScoreCase, options: LawOptions): void {
  for (const [i, { forced }] of onCpu(piece, on, options, given).entries()) {
    if (!forced) continue;
    const { rows, slots, data, valid } = rowsOf(forced, on.layers[i]),
      most = compile(piece).floor(on.spec.slots, on.spec.budget);
    for (let r = 0; r < rows; r++) {
      const count = Array.from(data.subarray(r * slots, r * slots + valid[r])).reduce((a, b) => a + b, 0);
      claim(count <= most, () => `layer ${i}, row ${r}: ${count} slots are forced, declared is a floor of ${most}`);
    }
  }
}
