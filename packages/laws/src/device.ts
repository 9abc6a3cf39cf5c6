import fc from 'fast-check';
import { cpu } from '@kv/cpu';
import type { Piece, DraftSelection } from '@kv/core';
import { same } from './compare.ts';
import { claim, TOLERANCE } from './law.ts';
import type { Claim } from './law.ts';
import type { Scene } from './scene.ts';
import { onCpu, onTrace, play, stage } from './stage.ts';
import type { StartNumbers } from './stage.ts';

/** A cache, and the numbers that a piece starts from. */
export interface Case {
  readonly on: Scene;
  readonly given?: readonly StartNumbers[];
}
/** Cases for a kind of pieces, and how to run a piece on one. */
interface Cases<P extends Piece, S, C extends Case, R> {
  specs(piece: P): fc.Arbitrary<S>;
  /** `pad` fills every slot beyond a row's length. */
  at(spec: S, pad?: number): C;
  left(piece: P, drafts: readonly DraftSelection[], c: C): R;
  agree(got: R, want: R, what: string, tolerance: number): void;
}

declare const structuredClone: <T>(value: T) => T; // exists in Node and browsers, but is not declared

/** Claims about any piece that runs on a device. */
export function deviceClaims<P extends Piece, S, C extends Case, R>({ specs, at, left, agree }: Cases<P, S, C, R>) {
  const padding: Claim<P> = (piece, { tolerance = TOLERANCE, ...options } = {}) =>
    fc.property(specs(piece), (spec) => {
      const c = at(spec),
        [other, want] = [at(spec, Number.NaN), c].map(({ on, given }) =>
          left(piece, onCpu(piece, on, options, given), c),
        );
      agree(other, want, 'with other padding', tolerance);
    });
  const pure: Claim<P> = (piece, options = {}) =>
    fc.property(specs(piece), (spec) => {
      const c = at(spec),
        set = stage(c.on, cpu.ops, options, c.given),
        first = structuredClone(left(piece, play(piece, set, cpu.ops), c)),
        before = set.arrays.map((a) => a.slice());
      const second = left(piece, play(piece, set, cpu.ops), c),
        fresh = stage(c.on, cpu.ops, options, c.given);
      play(piece, fresh, cpu.ops);
      claim(
        set.arrays.every((a, i) => same(a, before[i])) && fresh.arrays.every((a, i) => same(a, before[i] ?? a)),
        () => 'the piece wrote into its signals',
      );
      agree(second, first, 'the second time', 0);
    });
  const traced: Claim<P> = (piece, options = {}) =>
    fc.property(specs(piece), (spec) => {
      const c = at(spec),
        [got, want] = [onTrace, onCpu].map((run) => left(piece, run(piece, c.on, options, c.given), c));
      agree(got, want, 'where host reads throw', 0);
    });
  return {
    /** Numbers beyond a row's valid slots change nothing. */
    padding,
    /** The same scores and signals give the same result again, and are left unchanged. */
    pure,
    /** Runs where every host read throws, with the same result. */
    traced,
  };
}
