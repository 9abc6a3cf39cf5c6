import { KvError } from '@kv/core';

/** A memory with a limited number of rotary positions. */
interface Windowed {
  /** Number of rotary positions available. */
  readonly window: number;
  /** Slots of the longest head of any layer. */
  readonly longest: number;
  /** Tokens fed so far, evicted ones included. */
  readonly length: number;
}
/** A memory whose kept slots can be moved together. */
interface Movable extends Windowed {
  /** How far new tokens' rotations lie below their positions. */
  readonly shift: number;
  rebase(): void;
}

/** Checks that `more` tokens fit in the window after the kept slots. @throws KvError if not */
export function expectRoom({ window, longest, length }: Windowed, more: number, where: string): void {
  if (longest + more <= window) return;
  throw new KvError(
    where,
    `must fit the model's context of ${window} tokens, got ${longest === length ? length + more : `${longest} kept slots and ${more} more`}`,
  );
}

/**
 * Moves the kept slots together if `more` tokens would exceed the window, or, with `together`, if any slot was evicted
 * since.
 * @throws KvError, before anything changes, if the tokens do not fit even then
 */
export function makeRoom(memory: Movable, more: number, where: string, together = false): void {
  expectRoom(memory, more, where);
  const next = memory.length - memory.shift;
  if (next + more > memory.window || (together && memory.longest < next)) memory.rebase();
}
