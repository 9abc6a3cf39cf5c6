import { KvError } from '@kv/core';
import type { Policy, Tensor } from '@kv/core';
import { faultPoints } from './fault-points.ts';
import type { FaultSupplier, FaultPoint, FailurePoint } from './fault-point.ts';
import { changes, overwrites } from './writes-in-place.ts';
import { anything, lifetimes, tensors } from './faulty-values.ts';
import type { FaultyValue } from './faulty-values.ts';

/** A policy with a piece that returns something faulty. */
export interface HostileCase {
  /** The piece, its result, and the fault in it. */
  readonly name: string;
  readonly when: FailurePoint;
  /** Makes a new policy for each run; a KvError that it throws counts as one of the engine. */
  policy(): Policy;
  /** The fault appears only from the second event or token on. */
  readonly late: boolean;
  /** Why no error is expected; absent if one is. */
  readonly harmless?: string;
  /** Overwrites numbers of the engine, so the sequence becomes unusable. */
  readonly overwrites?: true;
}
/** What the backend under test can do, on which the hostile cases depend. */
export interface HostileOptions {
  /** A tensor of another backend. */
  readonly foreign: Tensor;
  /** Tensors live until an event ends, as on a device. @defaultValue false */
  readonly ends?: boolean;
  /** JavaScript cannot write to the numbers of tensors. @defaultValue `ends` */
  readonly opaque?: boolean;
}

const HELD = 'where tensors are not freed, an old one is still valid';

/**
 * Returns every wrong shape, type, number and lifetime, at every point where a piece or hook gives something to an
 * engine.
 */
export function hostileCases({ foreign, ends = false, opaque = ends }: HostileOptions): readonly HostileCase[] {
  const all = ({ takes, when, wide = false, numbers = [] }: FaultPoint): readonly FaultyValue[] => [
    ...anything.filter(({ name }) => when !== 'policy' || !name.startsWith('throws')), // its function never runs
    ...(takes === 'tensor' ? [...tensors(!wide), ...lifetimes(foreign)] : []),
    ...numbers,
  ];
  const cases = faultPoints.flatMap((point) => {
    const left = new Set(Object.keys(point.harmless ?? {})),
      made = all(point).map((wrong): HostileCase => {
        left.delete(wrong.name);
        const harmless = point.harmless?.[wrong.name] ?? (wrong.late && !ends ? HELD : undefined);
        return {
          name: `${point.name}: ${wrong.name}`,
          when: point.when,
          late: wrong.late ?? false,
          policy: () => point.policy(supplier(wrong)),
          ...(harmless !== undefined && { harmless }),
        };
      });
    if (left.size > 0) throw new RangeError(`${point.name}: no fault is named ${[...left].join(', ')}`);
    return made;
  });
  return [
    ...cases,
    ...overwrites.map(
      ([name, when, policy]): HostileCase => ({
        name: `writes in place: ${name}`,
        when,
        late: false,
        policy,
        ...(opaque ? { harmless: 'JavaScript cannot write to these numbers' } : { overwrites: true }),
      }),
    ),
    ...changes.map(
      ([name, policy]): HostileCase => ({
        name: `changes in place: ${name}`,
        when: 'event',
        late: false,
        policy,
      }),
    ),
  ];
}

/** Returns a supplier of the fault in the last layer, after the others have run. */
function supplier(wrong: FaultyValue): FaultSupplier {
  let before: unknown;
  return ((good, where) => {
    if (where.at && where.at.layer < where.at.layers - 1) return good;
    if (!wrong.late) return wrong.of(good, where);
    const given = before ?? good;
    before ??= good;
    return wrong.of(given, where);
  }) as FaultSupplier;
}

/** Judges an engine's reaction to a case. @throws RangeError unless it failed with the one expected sentence */
export function judgeHostile({ name, when, harmless }: HostileCase, error: unknown): void {
  const wrong = (want: string): RangeError =>
    new RangeError(`${name}: expected ${want}, got ${error === undefined ? 'nothing' : String(error)}`);
  if (harmless !== undefined) {
    if (error !== undefined) throw wrong(`no error, since ${harmless}`);
    return;
  }
  if (!KvError.is(error)) throw wrong('one KvError');
  const { message } = error;
  if (/[\r\n]/.test(message)) throw wrong('one line');
  if (!BY[when].test(message)) throw wrong(`the piece and its layer, ${String(BY[when])}`);
  if (!/expected |must be |read only|not extensible|enough/.test(message)) throw wrong('what was expected');
}
const PIECE = /^hostile(?:, layer \d+)?: /;
/** What an error must name: the piece, and the layer if there is one. */
const BY: Readonly<Record<FailurePoint, RegExp>> = {
  policy: /^(?:policy|event|retain|plain(?:, layer \d+)?): /,
  event: PIECE,
  provider: PIECE,
  compact: PIECE,
  step: PIECE,
  decode: PIECE,
  prefill: PIECE,
};
