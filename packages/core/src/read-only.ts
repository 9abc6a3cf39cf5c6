import type { Cell } from './atoms.ts';
import { dims, strides } from './cpu/dense.ts';
import type { CpuTensor } from './cpu/dense.ts';
import { KvError } from './errors.ts';
import type { Signal } from './signals.ts';

// Tensors that pieces are given are read only. On the host they lie where the engine keeps its numbers, so a sample of
// them is compared before and after a piece ran, bit by bit: of each row 16 slots spread over it (all of a shorter one),
// and one channel of each. It does not see a write to other slots or channels alone, one that leaves the same bits, one
// through a tensor that the piece did not read in this run, or one after it has returned, in a timer or a promise. On a
// device JavaScript cannot write to them.
const SAMPLES = 16;

/** Whether a value is a tensor whose numbers lie on the host. */
const onHost = (x: unknown): x is CpuTensor =>
  typeof x === 'object' &&
  x !== null &&
  'data' in x &&
  'stride' in x &&
  (x.data instanceof Float32Array || x.data instanceof Uint32Array);

/** The bits that are compared. */
function sample(x: CpuTensor): Uint32Array {
  const { data, offset } = x,
    bits = new Uint32Array(data.buffer, data.byteOffset, data.length);
  const [rows, slots, channels] = dims(x),
    [a, b, c] = strides(x),
    every = Math.max(1, Math.ceil(slots / SAMPLES)),
    each = Math.ceil(slots / every),
    out = new Uint32Array(rows * each);
  for (let r = 0, to = 0; r < rows; r++)
    for (let k = 0; k < each; k++) out[to++] = bits[offset + r * a + k * every * b + ((r + k) % channels) * c];
  return out;
}
function same(before: Uint32Array, now: Uint32Array): boolean {
  if (before.length !== now.length) return false;
  for (let i = 0; i < before.length; i++) if (before[i] !== now[i]) return false;
  return true;
}

/** The error for a piece that wrote to what it was given: the engine's numbers may no longer be what they were. */
class Overwritten extends KvError {
  readonly overwritten = true;
}
/** Whether an error says that a piece wrote to an engine's numbers. */
export const isOverwritten = (error: unknown): error is KvError => KvError.is(error) && 'overwritten' in error;

/** A cell that remembers what it gave to a piece. */
interface Watched<C extends Cell> {
  readonly cell: C;
  /** @throws KvError naming the piece, if it wrote to a tensor that it was given. */
  expectSame(name: string): void;
}
function watched<C extends Cell>(cell: C): Watched<C> {
  const before = new Map<CpuTensor, { readonly what: string; readonly bits: Uint32Array }>(),
    note = (what: string, x: unknown): void => {
      if (!onHost(x) || before.has(x)) return;
      before.set(x, { what, bits: sample(x) });
      note(`the lengths of ${what}`, x.lengths);
    },
    { budgets, scores, forced, banned, units, unitScores, kept, active } = cell.draft,
    { layer } = cell.at;
  for (const [what, x] of Object.entries({ budgets, scores, forced, banned, unitScores, kept, active })) note(what, x);
  note('units', units?.of);
  return {
    cell: {
      ...cell,
      read: <V>(signal: Signal<string, V>): V => {
        const value = cell.read(signal);
        note(signal.as, value);
        return value;
      },
    },
    expectSame: (name) => {
      for (const [x, { what, bits }] of before)
        if (!onHost(x) || !same(bits, sample(x)))
          throw new Overwritten(
            `${name}, layer ${layer}`,
            `expected ${what} left as they are, got others in their place`,
          );
    },
  };
}
/** Runs a piece over cells. @throws KvError naming the piece, if it wrote to a tensor that it was given. */
export function readOnly<C extends Cell, T>(name: string, cells: readonly C[], run: (cells: readonly C[]) => T): T {
  const all = cells.map((cell) => watched(cell));
  const expectSame = (): void => {
    for (const one of all) one.expectSame(name);
  };
  let made: T;
  try {
    made = run(all.map(({ cell }) => cell));
  } catch (error) {
    if (!isOverwritten(error)) expectSame(); // what a piece inside this one wrote is named already
    throw error;
  }
  expectSame();
  return made;
}
