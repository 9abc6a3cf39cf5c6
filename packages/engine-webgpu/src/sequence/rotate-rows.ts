import type { Commands } from '@kv/gpu';
import type { DeviceAngles } from '../operations.ts';
import { encodeRotate, type RotatedRows } from '../rotate.ts';

/** Angles of all positions to rotate from or to, on the device. */
export interface Rotations {
  readonly commands: Commands;
  /** Absent where nothing is rotated. */
  readonly angles: DeviceAngles | undefined;
  /** The row of a position's angles. */
  readonly row: ReadonlyMap<number, number>;
}

/**
 * Records the rotation of the first slots of every row of x from one position to another, both
 * `[row][slot]`; rows may differ in length.
 */
export function rotateRows(
  { commands, angles, row }: Rotations,
  x: RotatedRows,
  from: readonly (readonly number[])[],
  to: readonly (readonly number[])[],
): void {
  if (angles === undefined) return;
  const slots = Math.max(0, ...from.map(({ length }) => length)),
    turns = new Uint32Array(from.length * slots * 2);
  const at = (position: number): number => row.get(position)!; // `row` has all positions to rotate from or to
  for (const [r, list] of from.entries())
    for (const [i, p] of list.entries()) turns.set([at(p), at(to[r][i])], 2 * (r * slots + i));
  if (slots === 0) return;
  const given = commands.upload(turns, [from.length, slots, 2]);
  encodeRotate(commands, x, given, angles);
  commands.free(given);
}
