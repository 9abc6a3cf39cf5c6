import { claim } from './law.ts';
import type { ResultRows } from './stage.ts';

/**
 * Asserts that valid entries agree, slot i of `a` with slot `order[i]` of `b`, to within `tolerance` of the row's
 * largest magnitude (of 1 if that is smaller).
 */
export function agree(what: string, a: ResultRows, b: ResultRows, tolerance: number, order?: readonly number[]): void {
  claim(
    a.rows === b.rows && a.slots === b.slots,
    () => `${what}: expected shape [${b.rows}, ${b.slots}], got [${a.rows}, ${a.slots}]`,
  );
  for (let r = 0; r < a.rows; r++) {
    const at = (x: ResultRows, i: number): number => x.data[r * x.slots + i];
    const largest = Math.max(
      1,
      ...Array.from({ length: b.valid[r] }, (_, i) => Math.abs(at(b, i))).filter(Number.isFinite),
    );
    for (let i = 0; i < Math.min(a.valid[r], b.valid[r]); i++) {
      const x = at(a, i),
        y = at(b, order?.[i] ?? i);
      claim(
        Object.is(x, y) || Math.abs(x - y) <= tolerance * largest,
        () => `${what}: row ${r}, slot ${i} is ${x}, expected ${y} within ${tolerance * largest}`,
      );
    }
  }
}

/** Asserts that every valid entry satisfies a predicate. */
export function all(
  what: string,
  { rows, slots, data, valid }: ResultRows,
  want: string,
  ok: (x: number) => boolean,
): void {
  for (let r = 0; r < rows; r++)
    for (let i = 0; i < valid[r]; i++) {
      const x = data[r * slots + i];
      claim(ok(x), () => `${what}: row ${r}, slot ${i} must be ${want}, got ${x}`);
    }
}

/** Whether two arrays have the same bits. */
export const same = (a: Float32Array | Uint32Array, b: Float32Array | Uint32Array): boolean =>
  a.length === b.length && a.every((x, i) => Object.is(x, b[i]));

/** Asserts that two values have the same numbers in the same places. */
export const equal = (got: unknown, want: unknown, what: string): void =>
  claim(
    JSON.stringify(got) === JSON.stringify(want),
    () => `${what}: ${JSON.stringify(got)} is not ${JSON.stringify(want)}`,
  );
