import fc from 'fast-check';
import { cpu } from '@kv/cpu';
import type { Backend, Piece, ScorePhase, DraftSelection } from '@kv/core';
import { agree, equal } from './compare.ts';
import { suite, TOLERANCE } from './law.ts';
import type { Claim, Claims, LawOptions, Suite } from './law.ts';
import { scene, sceneSpecs } from './scene.ts';
import { results } from './scoring.ts';
import { realise, selectSpecs } from './selection.ts';
import { onBackend, onCpu, rowsOf } from './stage.ts';
import type { ResultRows } from './stage.ts';
import { randomScores, scoreSpecs } from './transform.ts';
import type { Layer, Scene } from './scene.ts';

/** Options of `backendLaws`. */
export interface BackendOptions extends LawOptions {
  /** The backend under test; `backendLaws` asks for it. @defaultValue the CPU itself, of which the claims hold */
  readonly backend?: Backend | undefined;
}
const compare = (
  piece: Piece,
  got: readonly DraftSelection[],
  want: readonly DraftSelection[],
  layers: readonly Layer[],
  tolerance: number,
): void => {
  const expected = results(piece, want, layers);
  results(piece, got, layers).forEach(([name, x], i) => agree(name, x, expected[i][1], tolerance));
};
/** Returns the valid numbers of each row. */
const listed = ({ rows, slots, data, valid }: ResultRows): number[][] =>
  Array.from({ length: rows }, (_, r) => Array.from(data.subarray(r * slots, r * slots + valid[r])));
type Property = Claim<Piece<any, any>, BackendOptions>;

/** A scorer or a transform gives the same scores and masks on two backends. */
const scores: Property = (piece, { backend = cpu, tolerance = TOLERANCE, ...options } = {}) =>
  fc.asyncProperty(fc.record({ spec: sceneSpecs(), from: scoreSpecs(piece) }), async ({ spec, from }) => {
    const on: Scene = scene(spec),
      start = piece.from.includes('start') ? undefined : randomScores(on, from);
    compare(
      piece,
      await onBackend(piece, on, backend, options, start),
      onCpu(piece, on, options, start),
      on.layers,
      tolerance,
    );
  });
/** A selector keeps the same slots, and a demotion gives them the same levels, on two backends for the same bits. */
const kept: Property = (piece, { backend = cpu, ...options } = {}) =>
  fc.asyncProperty(selectSpecs(piece), async (spec) => {
    const { on, given } = realise(spec),
      sets = [await onBackend(piece, on, backend, options, given), onCpu(piece, on, options, given)].map((drafts) =>
        drafts.map((d, l) => {
          if (!d.kept) return [];
          const sets = listed(rowsOf(d.kept, on.layers[l])),
            levels = d.levels && listed(rowsOf(d.levels, on.layers[l]));
          return [sets, levels && sets.map((set, r) => set.map((slot) => levels[levels.length === 1 ? 0 : r][slot]))];
        }),
      );
    equal(sets[0], sets[1], `kept on ${backend.name}`);
  });

/** Claims that a piece gives the same on one backend as on the CPU. */
export const backend = { scores, kept } satisfies Claims<Piece<any, any>, BackendOptions>;
/**
 * Returns the laws that a scorer, transform or selector gives the same on a backend as on the CPU.
 * @throws Error without a backend: the CPU would be compared with itself
 */
export function backendLaws(
  piece: Piece<'start' | ScorePhase, any> | Piece<any, any>,
  options: BackendOptions & Required<Pick<BackendOptions, 'backend'>>,
): Suite {
  if ((options as BackendOptions | undefined)?.backend === undefined)
    throw new Error(
      'backendLaws: expected a backend to compare with the CPU, got none: backendLaws(piece, { backend })',
    );
  return suite(backend, piece, options, { scores: piece.to === 'kept', kept: piece.to !== 'kept' }, ['backend']);
}
