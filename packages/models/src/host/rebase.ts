import { KvError } from '@kv/core';
import type { SequenceMemory } from './sequence-memory.ts';

/** @throws KvError unless so many more tokens have room in the window beside the kept slots. */
export function expectRoom({ window, longest, length }: SequenceMemory, more: number, where: string): void {
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
export function makeRoom(memory: SequenceMemory, more: number, where: string, together = false): void {
  expectRoom(memory, more, where);
  const next = memory.length - memory.shift;
  if (next + more > memory.window || (together && memory.longest < next)) memory.rebase();
}
