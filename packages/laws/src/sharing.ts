import fc from 'fast-check';
import { attentionLast, compose, KvError, selector, weightScorer } from '@kv/core';
import { cpu, readCpu } from '@kv/cpu';
import { compile, isState, runEvent } from '@kv/core/engine';
import type { AnyPiece, AnySignal, LayerContext, Piece, Tensor } from '@kv/core';
import { equal } from './compare.ts';
import { claim, lawsOf } from './law.ts';
import type { Claims, LawOptions } from './law.ts';
import { scene, sceneSpecs } from './scene.ts';
import type { SceneSpec } from './scene.ts';
import { rowsOf, stage } from './stage.ts';

/** Makes a piece with a `wrapSelect` hook from the similarity at which it starts to reuse an earlier set. */
export type SharingFactory = (threshold: number) => Piece<any, 'same'>;

const newest = weightScorer('newest', { needs: [attentionLast] }, ({ attention }) => attention)();
const best = selector('best', {}, ({ ops, scores, budgets, ...masks }) => ops.select(scores, budgets, masks))();

/** Returns a state by position with room for that many columns: new ones are 0. */
function grown(x: Tensor, columns: number): Tensor {
  const { data, shape } = readCpu(x),
    [rows = 1, old = 0] = shape,
    wide = new Float32Array(rows * columns);
  for (let r = 0; r < rows; r++) wide.set(data.subarray(r * old, (r + 1) * old), r * columns);
  return cpu.ops.from({ data: wide, shape: [rows, columns] });
}

/** Returns the kept slots of every layer and query head over some decoding steps, with or without the wrap. */
function decode(
  piece: Piece | undefined,
  spec: SceneSpec,
  steps: number,
  options: LawOptions,
): readonly (readonly (readonly number[])[])[] {
  const policy = compile(compose(newest, best, ...(piece ? [piece as AnyPiece] : [])) as Piece),
    wrap = policy.hooks('wrapSelect')[0];
  if (piece && !wrap) throw new KvError(piece.label, 'has no wrapSelect hook, expected a piece made by wrapSelect()');
  const state = new Map<string, Tensor>(),
    budget = Math.min(spec.budget + 1, spec.slots);
  return Array.from({ length: steps }, (_, step) => {
    const on = scene({ ...spec, seed: spec.seed + step }),
      layers = on.layers.map((l) => ({
        ...l,
        at: { ...l.at, length: l.at.length + step, step: step + 1, selectRows: l.at.queryHeads, budget },
      }));
    /** State with rows `model` is shared by all layers, which run one after another. */
    const place = (signal: AnySignal | undefined, id: string, layer: number): string =>
      signal && isState(signal) && signal.state.rows === 'model' ? id : `${id}/${layer}`;
    const kept = (signal: AnySignal, { layer, length }: LayerContext): Tensor | undefined => {
      const value = isState(signal) ? state.get(place(signal, signal.id, layer)) : undefined;
      return value && isState(signal) && signal.state.kind === 'position' ? grown(value, length) : value;
    };
    const set = stage(
      { ...on, layers },
      cpu.ops,
      { ...options, signals: (s, layer, ops) => options.signals?.(s, layer, ops) ?? kept(s, layer.at) },
      layers.map((l) => ({ rows: 1, budgets: new Array<number>(l.at.queryHeads).fill(budget) })),
    );
    return layers.flatMap((layer, l) => {
      const draft = runEvent(policy, [set.layers[l]], cpu.ops, { wrap })[0];
      for (const [id, tensor] of draft.state)
        state.set(
          place(
            wrap?.needs.find((s) => s.id === id),
            id,
            layer.at.layer,
          ),
          tensor,
        );
      const { rows, slots, data, valid } = rowsOf(draft.kept!, layer); // set by the selector `best`
      return Array.from({ length: rows }, (_, r) => Array.from(data.subarray(r * slots, r * slots + valid[r])));
    });
  });
}
const specs: fc.Arbitrary<SceneSpec> = sceneSpecs({ ragged: false });

/** Claims about selections that are shared between steps, each a property of the wrap alone. */
export const sharing = {
  /** With a threshold above 1 every step retrieves: it keeps what the inner selector keeps. */
  retrieves: (make, options = {}) =>
    fc.property(specs, fc.integer({ min: 101, max: 300 }), (spec, percent) =>
      equal(
        decode(make(percent / 100), spec, 3, options),
        decode(undefined, spec, 3, options),
        'kept over three steps',
      ),
    ),
  /** With nothing to share yet, the first step retrieves, whatever the threshold. */
  first: (make, options = {}) =>
    fc.property(specs, fc.integer({ min: -100, max: 100 }), (spec, percent) =>
      equal(
        decode(make(percent / 100), spec, 1, options),
        decode(undefined, spec, 1, options),
        'kept in the first step',
      ),
    ),
  /** Every set ascends strictly over slots that exist. */
  valid: (make, options = {}) =>
    fc.property(specs, fc.integer({ min: -100, max: 100 }), (spec, percent) =>
      decode(make(percent / 100), spec, 3, options)
        .flat()
        .forEach((set) =>
          claim(
            set.every((s, i) => s >= 0 && s < spec.slots && (i === 0 || s > set[i - 1])),
            () => `expected ascending slots below ${spec.slots}, got [${set.join(', ')}]`,
          ),
        ),
    ),
} satisfies Claims<SharingFactory>;

/** The laws of sharing. */
export const sharingLaws = lawsOf(sharing);
