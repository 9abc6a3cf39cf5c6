import fc from 'fast-check';
import { cpu } from '@kv/cpu';
import type { LayerContext, Piece, FreezeHook, ViewHook } from '@kv/core';
import { claim, lawsOf } from './law.ts';
import type { Claim, Claims, LawOptions } from './law.ts';

/** A piece that hides or freezes by layer and position only: sinks and a lower bound. */
export type AnySchedule = Piece<any, 'same'>;
/** Options of `scheduleLaws`. */
export interface ScheduleOptions extends LawOptions {
  /** First positions that must stay visible. @defaultValue 1 */
  readonly sinks?: number | undefined;
}

/** Positions from `sinks` up to `below` (exclusive) are hidden from the query at `t`, or frozen. */
interface Hidden {
  readonly sinks: number;
  readonly below: number;
}
interface Place {
  readonly layer: number;
  readonly layers: number;
  readonly t: number;
}
const isSchedule = (a: Piece['atoms'][number]): a is ViewHook | FreezeHook => a.at === 'view' || a.at === 'freeze';

function hidden(piece: Piece, { layer, layers, t }: Place): readonly Hidden[] {
  const length = t + 1;
  const at: LayerContext = {
    layer,
    layers,
    queryHeads: 2,
    kvHeads: 1,
    headDim: 2,
    step: 1,
    promptLength: length,
    length,
    slots: length,
    aligned: true,
    budget: length,
    selectRows: 1,
  };
  return piece.atoms.filter(isSchedule).map((hook) => {
    if (hook.at === 'freeze') return hook.run(at);
    const { sinks = 0, lower } = hook.run({
      at,
      ops: cpu.ops,
      draft: { budgets: cpu.ops.from({ data: [length], shape: [1, 1] }), state: new Map(), checks: [] },
      read: () => {
        throw new Error(`'${hook.label}' reads a signal: it is no schedule of layer and place alone`);
      },
    });
    return { sinks, below: lower?.(t) ?? 0 };
  });
}
const places: fc.Arbitrary<Place> = fc
  .integer({ min: 1, max: 12 })
  .chain((layers) => fc.record({ layers: fc.constant(layers), layer: fc.nat(layers - 1), t: fc.nat(300) }));
type Property = Claim<AnySchedule, ScheduleOptions>;
const everywhere =
  (judge: (hidden: Hidden, place: Place, options: ScheduleOptions) => void): Property =>
  (piece, options = {}) =>
    fc.property(places, (place) => hidden(piece, place).forEach((h) => judge(h, place, options)));
const grows =
  (what: string, further: (place: Place) => Place): Property =>
  (piece) =>
    fc.property(places, (place) => {
      const far = hidden(piece, further(place));
      hidden(piece, place).forEach((h, i) =>
        claim(
          far[i].below >= h.below,
          () => `${what}: below ${h.below} is out of sight, then only below ${far[i].below}`,
        ),
      );
    });

/** Claims about a schedule. */
export const schedule = {
  /** It hides or freezes something. */
  acts: (piece) =>
    fc.property(fc.constant(0), () =>
      claim(piece.atoms.some(isSchedule), () => `'${piece.label}' neither hides nor freezes`),
    ),
  /** A deeper layer sees no more. */
  depth: grows('in the next layer', (p) => ({ ...p, layer: Math.min(p.layer + 1, p.layers - 1) })),
  /** A hidden position stays hidden: the bound never falls as tokens come. */
  time: grows('one token later', (p) => ({ ...p, t: p.t + 1 })),
  /** The first positions stay visible. */
  sinks: everywhere(({ sinks, below }, _, { sinks: want = 1 }) =>
    claim(
      below <= sinks || sinks >= want,
      () => `expected ${want} sinks in sight, got ${sinks} and a bound of ${below}`,
    ),
  ),
  /** The newest token stays visible. */
  current: everywhere(({ sinks, below }, { t }) =>
    claim(below <= t || sinks > t, () => `the query at ${t} sees positions from ${below} on only`),
  ),
} satisfies Claims<AnySchedule, ScheduleOptions>;

/** The laws of a schedule: a piece that hides or freezes by layer and position. */
export const scheduleLaws = lawsOf(schedule, ['sinks']);
