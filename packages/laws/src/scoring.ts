import fc from 'fast-check';
import { sumOf } from '@kv/core/shared';
import { compile, isState } from '@kv/core/engine';
import type { Piece, Tensor, DraftSelection } from '@kv/core';
import { agree, all } from './compare.ts';
import { deviceClaims } from './device.ts';
import type { Case } from './device.ts';
import { claim } from './law.ts';
import type { Claim, LawOptions } from './law.ts';
import type { Layer } from './scene.ts';
import { onCpu, rowsOf } from './stage.ts';
import type { ResultRows } from './stage.ts';

/** Returns the scores of every layer. @throws if a draft has none. */
export function scoresOf(
  piece: Piece,
  drafts: readonly DraftSelection[],
  layers: readonly Layer[],
): readonly ResultRows[] {
  return drafts.map((draft, i) => {
    claim(draft.scores !== undefined, () => `'${piece.label}' left no scores in layer ${i}`);
    return rowsOf(draft.scores, layers[i], 'f32');
  });
}
const MASKS = ['forced', 'banned'] as const;
/** Returns scores and masks by name. */
export function results(
  piece: Piece,
  drafts: readonly DraftSelection[],
  layers: readonly Layer[],
): readonly (readonly [name: string, rows: ResultRows])[] {
  const masks = drafts.flatMap((d, i) =>
    MASKS.filter((m) => d[m]).map((m) => [`${m} slots of layer ${i}`, rowsOf(d[m] as Tensor, layers[i])] as const),
  );
  return [...scoresOf(piece, drafts, layers).map((rows, i) => [`scores of layer ${i}`, rows] as const), ...masks];
}
/** Whether a piece can tell slots apart by their place, according to its needs. */
export const readsPlaces = (piece: Piece): boolean =>
  compile(piece).steps.some((s) =>
    s.needs.some((n) => n.id === 'positions' || n.id === 'tokens' || (isState(n) && n.state.kind !== 'sequence')),
  );

/**
 * Scores have one column per slot, in as many rows as there are query heads, KV heads or layers; masks likewise, of 0
 * and 1.
 */
function shape(piece: Piece, { on, given }: Case, options: LawOptions): void {
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
function finite(piece: Piece, { on, given }: Case, options: LawOptions): void {
  for (const [i, x] of scoresOf(piece, onCpu(piece, on, options, given), on.layers).entries())
    all(`scores of layer ${i}`, x, 'finite', Number.isFinite);
}
/** Weights are at least 0. */
export function atLeast0(piece: Piece, { on, given }: Case, options: LawOptions): void {
  for (const [i, x] of scoresOf(piece, onCpu(piece, on, options, given), on.layers).entries())
    all(`weights of layer ${i}`, x, 'at least 0', (w) => !(w < 0));
}
/** No head has more forced slots than the piece's declared floor. */
function floor(piece: Piece, { on, given }: Case, options: LawOptions): void {
  for (const [i, { forced }] of onCpu(piece, on, options, given).entries()) {
    if (!forced) continue;
    const { rows, slots, data, valid } = rowsOf(forced, on.layers[i]),
      most = compile(piece).minSlots(on.spec.slots, on.spec.budget);
    for (let r = 0; r < rows; r++) {
      const count = sumOf(data.subarray(r * slots, r * slots + valid[r]));
      claim(count <= most, () => `layer ${i}, row ${r}: ${count} slots are forced, declared is a floor of ${most}`);
    }
  }
}

/** Claims about any piece that leaves scores. */
export function scoringClaims<P extends Piece, S, C extends Case>(
  specs: (piece: P) => fc.Arbitrary<S>,
  at: (spec: S, pad?: number) => C,
) {
  const claimed =
    (check: (piece: Piece, c: Case, options: LawOptions) => void): Claim<P> =>
    (piece, options = {}) =>
      fc.property(specs(piece), (spec) => check(piece, at(spec), options));
  return {
    /** Scores have one column per slot, in H, G or 1 rows; masks likewise, of 0 and 1. */
    shape: claimed(shape),
    /** Every valid score is a finite number. */
    finite: claimed(finite),
    /** No head has more forced slots than the declared floor. */
    floor: claimed(floor),
    /** Weights are at least 0. For pieces that leave weights. */
    weights: claimed(atLeast0),
    ...deviceClaims({
      specs,
      at,
      left: (piece, drafts, { on }) => results(piece, drafts, on.layers),
      agree(got, want, what, tolerance) {
        const names = (of: typeof got): string => of.map(([name]) => name).join(', ');
        claim(got.length === want.length, () => `expected ${names(want)}, got ${names(got)}`);
        for (const [i, [name, rows]] of got.entries()) agree(`${name}, ${what}`, rows, want[i][1], tolerance);
      },
    }),
  };
}
