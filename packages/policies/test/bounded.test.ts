import { compose, entries, KvError } from '@kv/core';
import type { AnyFactory, AnyPiece, AnySignal, Ops, Piece } from '@kv/core';
import { boundedLaws, each } from '@kv/laws';
import type { Layer, Optioned } from '@kv/laws';
import { keydiff } from '@kv/scorers-keys';
import { knorm } from '@kv/scorers-knorm';
import { chunks } from '@kv/units-chunks';
import { snapkv } from '@kv/scorers-attention';
import { describe, test } from 'vitest';
import { catalogue, policy } from '../src/index.ts';

/** What providers and files beside a model would give. */
function signals(signal: AnySignal, { at, attention }: Layer, ops: Ops): unknown {
  const { queryHeads: H, kvHeads: G, headDim: d, length } = at,
    waves = (n: number): Float32Array => Float32Array.from({ length: n }, (_, i) => Math.sin(i)),
    places = (from: number): Uint32Array => Uint32Array.from({ length: length - 1 }, (_, i) => i + from);
  switch (signal.id) {
    case 'crystalcache.co-attention':
      return {
        saliency: waves(length).map((x) => 10 + 9 * x),
        from: places(0),
        to: places(1),
        weight: waves(length - 1),
      };
    case 'preRope':
      return {
        mean: waves(H * d),
        size: waves(H * Math.floor(d / 2)),
        half: Math.floor(d / 2),
        queryHeads: H,
        headDim: d,
      };
    case 'queryStatistics':
      return { queryHeads: H, headDim: d, mean: waves(H * d), covariance: new Float32Array(H * d * d) };
    case 'qFilters':
      return { kvHeads: G, headDim: d, filters: waves(G * d) };
    case 'headScores':
      return { places: Array.from({ length: G }, (_, g) => g), of: G * at.layers, layers: at.layers };
    case 'confidences':
      return waves(length).map(Math.abs);
    case 'reconstruction':
      return ops.from({ data: attention, shape: [H, at.slots] });
    default:
      return undefined;
  }
}

/** The piece alone where it finds what it needs in a scene, else behind units. */
const standing = (piece: Piece): Piece =>
  piece.from.some((phase) => phase !== 'units' && phase !== 'kept')
    ? piece
    : (compose(knorm() as AnyPiece, chunks({ size: 3 }) as AnyPiece, piece as AnyPiece) as Piece);
/** What a factory takes before its options: the first that fits. */
const inner: Readonly<Record<AnyFactory['description']['takes'], readonly (readonly unknown[])[]>> = {
  nothing: [[]],
  scorer: [[knorm()], [snapkv({ window: 2 })]],
  scorers: [[knorm(), keydiff()]],
  terms: [
    [
      [1, knorm()],
      [0.5, keydiff()],
    ],
  ],
  policy: [[policy('knorm')]],
};
function subject(factory: AnyFactory): Optioned | undefined {
  const { options, takes } = factory.description;
  for (const before of inner[takes])
    try {
      standing(factory(...before) as Piece);
      return { options, make: (chosen) => standing(factory(...before, chosen) as Piece) };
    } catch (error) {
      if (!KvError.is(error)) throw error;
    }
  return undefined;
}

const pieces = entries(catalogue)
  .map(({ factory }) => factory)
  .filter(({ description: { from, kind, options } }) => (from ?? kind === 'method') && Object.keys(options).length > 0);
describe.each(pieces.map((factory) => [factory.description.name, factory.description.kind, factory] as const))(
  '%s, a %s',
  (_, __, factory) => {
    const of = subject(factory);
    if (of) each(boundedLaws(of, { signals, runs: 60 }), test);
    else test.skip('has no scorer here that it takes', () => {});
  },
);
