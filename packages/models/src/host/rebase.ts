import { KvError } from '@kv/core';
import { turner } from '../cache/turn.ts';
import type { Memory } from './memory.ts';
import type { SequenceMemory } from './sequence-memory.ts';

/** @throws KvError unless so many more tokens have room in the window beside the kept slots. */
export function expectRoom({ window, longest, length }: SequenceMemory, more: number, where: string): void {
  if (longest + more <= window) return;
  throw new KvError(where, `must fit the model's context of ${window} tokens, got ${longest === length ? length + more : `${longest} kept slots and ${more} more`}`);
}

/** Moves the kept slots together if so many more tokens would pass the window, or, where the policy wants them `together`, if any was evicted since. @throws KvError, before anything changes, if even then they would. */
export function makeRoom(memory: Memory, more: number, where: string, together = false): void {
  expectRoom(memory, more, where);
  const next = memory.length - memory.shift;
  if (next + more > memory.window || (together && memory.longest < next)) rebase(memory);
}

/**
 * Gives the kept slots of every KV head consecutive rotations that end where the longest head's end, from 0 on. The next token stands behind them, in
 * all layers at the same rotation; original positions stay what policies and views see.
 */
function rebase(memory: Memory): void {
  const { model: { decoder }, longest: next, layers } = memory;
  for (const { cache, ring } of layers) {
    const before = cache.rotations ?? cache.positions, used = Array.from({ length: next }, (_, i) => i);
    cache.lengths.forEach((n, g) => used.push(...before.subarray(g * cache.capacity, g * cache.capacity + n)));
    const turn = turner((positions) => decoder.angles(positions, memory.rotaryLength), [...used, ...ring?.rotations() ?? []]);
    cache.rebase(next, turn);
    ring?.rebase(cache, next, turn);
  }
  memory.shift = memory.length - next;
}
