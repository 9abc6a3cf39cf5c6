import { KvError } from '@kv/core';

/** Slots of a window. */
interface Windowed {
  /** Positions that there are to rotate by. */
  readonly window: number;
  /** Slots of the longest head of any layer. */
  readonly longest: number;
  /** Tokens fed so far, evicted ones included. */
  readonly length: number;
}
/** Slots that can be moved together. */
interface Movable extends Windowed {
  /** How far new tokens' rotations lie below their positions. */
  readonly shift: number;
  rebase(): void;
}

/** @throws KvError unless so many more tokens have room in the window beside the kept slots. */
export function expectRoom({ window, longest, length }: Windowed, more: number, where: string): void {
  if (longest + more <= window) return;
  throw new KvError(
    where,
    `must fit the model's context of ${window} tokens, got ${longest === length ? length + more : `${longest} kept slots and ${more} more`}`,
  );
}

/**
 * Moves the kept slots together if so many more tokens would pass the window, or, where the policy wants them
 * `together`, if any was evicted since. @throws KvError, before anything changes, if even then they would.
 */
export function makeRoom(memory: Movable, more: number, where: string, together = false): void {
  expectRoom(memory, more, where);
  const next = memory.length - memory.shift;
  if (next + more > memory.window || (together && memory.longest < next)) memory.rebase();
}
