import { compose, entries, KvError } from '@kv/core';
import { cpu } from '@kv/cpu';
import type { AnyFactory, AnyPiece, AnySignal, Ops, Option, Piece, Policy } from '@kv/core';
import { countedOps } from '@kv/core/engine';
import { scratchBytes } from '@kv/cpu/engine';
import type { OperationCount } from '@kv/core/engine';
import { boundedLaws, each } from '@kv/laws';
import type { Layer, OptionSubject } from '@kv/laws';
import { inTurn } from '@kv/model-testing/in-turn';
import { loadModel, Sequence } from '@kv/models';
import { keydiff } from '@kv/scorers-keys';
import { knorm } from '@kv/scorers-knorm';
import { topK } from '@kv/selectors-top-k';
import { chunks } from '@kv/units-chunks';
import { snapkv } from '@kv/scorers-attention';
import { describe, expect, test } from 'vitest';
import { catalogue, policy } from '@kv/policies';

/** What providers and sidecar files would give. */
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
    case 'input.gateScores':
      return ops.from({ data: waves(G * at.slots), shape: [G, at.slots] });
    case 'reconstruction':
      return ops.from({ data: attention, shape: [H, at.slots] });
    default:
      return undefined;
  }
}

/** The piece alone if a scene has what it reads, else preceded by units, or by a selection. */
function standing(piece: Piece): Piece {
  if (piece.from.some((phase) => phase !== 'units' && phase !== 'kept')) return piece;
  const before = piece.from.some((phase) => phase === 'units') ? chunks({ size: 3 }) : topK();
  return compose(knorm() as AnyPiece, before as AnyPiece, piece as AnyPiece) as Piece;
}
/** Arguments of a factory before its options: the first that fits. */
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
function subject(factory: AnyFactory): OptionSubject {
  const { name, options, takes } = factory.description;
  for (const before of inner[takes])
    try {
      standing(factory(...before) as Piece);
      return { options, make: (chosen) => standing(factory(...before, chosen) as Piece) };
    } catch (error) {
      if (!KvError.is(error)) throw error;
    }
  throw new Error(`${name}: expected one of these arguments to fit, got a refusal of each`);
}

const pieces = entries(catalogue)
  .map(({ factory }) => factory)
  .filter(({ description: { from, kind, options } }) => (from ?? kind === 'method') && Object.keys(options).length > 0);
describe.each(pieces.map((factory) => [factory.description.name, factory.description.kind, factory] as const))(
  '%s, a %s',
  (_, __, factory) => {
    each(boundedLaws(subject(factory), { signals, runs: 30 }), test);
  },
);

/** Returns an option's greatest value, at most a million the first time. */
function greatest({ form }: Option<unknown>, most: number): unknown {
  if (form.sort !== 'number') return undefined;
  const top = Math.min(form.most, most);
  return form.open === 'most' && top === form.most ? form.most - (form.whole ? 1 : 1e-3) : top;
}
const hooked = pieces.filter((factory) =>
    subject(factory)
      .make({})
      .atoms.some(({ at }) => at !== 'event'),
  ),
  chosen = inTurn(hooked, 4);
describe('hooks take no more than slots allow, whatever their options say', async () => {
  const model = await loadModel('embedded'),
    ids = Array.from({ length: 24 }, (_, i) => (i * 7) % 50);
  /** Returns the work of a prompt with an event, and of four tokens with one each. */
  async function taken(piece: Piece): Promise<OperationCount & { readonly scratch: number }> {
    const { ops, work } = countedOps(cpu.ops),
      before = scratchBytes(),
      policy = (
        piece.to === 'kept'
          ? piece
          : piece.to === 'same' && piece.from.includes('start')
            ? compose(piece as AnyPiece, knorm() as AnyPiece, topK() as AnyPiece)
            : compose(piece as AnyPiece, topK() as AnyPiece)
      ) as Policy;
    const sequence = new Sequence(model, { name: 'counting', ops, read: (x) => cpu.read(x), lasting: true });
    try {
      await sequence.prefill(ids, { policy, budget: 20 });
      for (const id of [1, 2, 3, 4]) await sequence.step(id, 1);
    } finally {
      sequence.destroy();
    }
    return { ...work, scratch: scratchBytes() - before };
  }
  test.each(chosen.map((factory) => [factory.description.name, factory] as const))('%s', async (_, factory) => {
    const { make, options } = subject(factory),
      // windows that fit the budget
      small = Object.fromEntries(
        ['window', 'question', 'recent'].flatMap((name) => (name in options ? [[name, 2]] : [])),
      ),
      usual = await taken(make(small));
    for (const most of [1_000_001, 2 ** 32 - 1])
      for (const [name, option] of Object.entries(options)) {
        const value = greatest(option, most);
        if (value === undefined) continue;
        try {
          const got = await taken(make({ ...small, [name]: value }));
          for (const of of ['calls', 'numbers', 'operations'] as const)
            expect(got[of], `${of} with ${name}=${value}`).toBeLessThanOrEqual(16 * 25 * usual[of]);
          expect(got.scratch, `bytes with ${name}=${value}`).toBeLessThanOrEqual(2 ** 20);
        } catch (error) {
          if (!KvError.is(error)) throw error; // refused with a sentence
        }
      }
  });
});
