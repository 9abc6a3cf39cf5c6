import { layerOf } from './step-cache.ts';
import type { StepInput } from '../piece/atoms.ts';
import { KvError } from '../tensor/errors.ts';
import type { HostTensor } from '../tensor/host-tensor.ts';
import type { Signal } from '../piece/signals.ts';

// The input tensors of pieces are read-only. On the host they share memory with the engine, so a sample of their bits is
// compared before and after a piece ran: 16 slots spread over each row (all of a shorter one), and one channel of each.
// Not detected: writes only to other slots or channels, writes that leave the same bits, writes through a tensor that
// the piece did not read in this run, and writes after it has returned, in a timer or a promise. On a device JavaScript
// cannot write to them.
const SAMPLES = 16;

/** Whether a value is a tensor whose numbers are on the host. */
const onHost = (x: unknown): x is HostTensor =>
  typeof x === 'object' &&
  x !== null &&
  'data' in x &&
  'stride' in x &&
  (x.data instanceof Float32Array || x.data instanceof Uint32Array);

/** Returns a checksum of the sampled bits, in order; a change of one of them always changes it. */
function sampled({ data, shape, stride, offset }: HostTensor): number {
  const bits = data instanceof Uint32Array ? data : new Uint32Array(data.buffer, data.byteOffset, data.length),
    [rows, slots = 1, channels = 1] = shape,
    [a, b = 0, c = 0] = stride,
    every = Math.max(1, Math.ceil(slots / SAMPLES));
  let sum = 0;
  for (let r = 0; r < rows; r++)
    for (let i = 0, at = offset + r * a, k = r; i < slots; i += every, k++) {
      // a bijection: two different sums stay different
      sum = Math.imul(sum ^ bits[at + i * b + (k % channels) * c], 0x9e3779b1);
      sum ^= sum >>> 15;
    }
  return sum;
}

/** Error for a piece that wrote to its input: the engine's numbers can no longer be trusted. */
class Overwritten extends KvError {
  readonly overwritten = true;
}
/** Whether an error reports that a piece wrote to an engine's numbers. */
export const isOverwritten = (error: unknown): error is KvError => KvError.is(error) && 'overwritten' in error;

/** A tensor that a piece was given, with its checksum. */
interface Given {
  readonly what: string;
  readonly x: HostTensor;
  readonly sum: number;
}
function note(given: Given[], what: string, x: unknown): void {
  if (!onHost(x)) return;
  for (const before of given) if (before.x === x) return;
  given.push({ what, x, sum: sampled(x) });
  if (x.lengths) note(given, `the lengths of ${what}`, x.lengths);
}
/** Returns a cell that records what it gives to a piece. */
function noting<C extends StepInput>(cell: C, given: Given[]): C {
  const { draft } = cell;
  for (const what of IN_DRAFT) note(given, what, draft[what]);
  note(given, 'units', draft.units?.of);
  return {
    ...cell,
    read: <V>(signal: Signal<string, V>): V => {
      const value = cell.read(signal);
      note(given, signal.as, value);
      return value;
    },
  };
}
const IN_DRAFT = ['budgets', 'scores', 'forced', 'banned', 'unitScores', 'kept', 'active'] as const;

/** Runs a piece over cells. @throws KvError naming the piece, if it wrote to a tensor that it was given. */
export function readOnly<C extends StepInput, T>(
  name: string,
  cells: readonly C[],
  run: (cells: readonly C[]) => T,
): T {
  const given: Given[][] = cells.map(() => []);
  const expectSame = (): void => {
    for (const [i, all] of given.entries())
      for (const { what, x, sum } of all)
        if (sampled(x) !== sum)
          throw new Overwritten(
            `${name}, layer ${layerOf(cells[i].at)}`,
            `expected ${what} left as they are, got others in their place`,
          );
  };
  let made: T;
  try {
    made = run(cells.map((cell, i) => noting(cell, given[i])));
  } catch (error) {
    if (!isOverwritten(error)) expectSame(); // what a piece inside this one wrote is named already
    throw error;
  }
  expectSame();
  return made;
}
