import { KvError } from '@kv/core';
import type { SequenceCaches } from './caches.ts';

/** Checks that `more` tokens fit in the window after the kept slots. @throws KvError if not */
export function expectRoom(
  { slots, context }: Pick<SequenceCaches, 'slots' | 'context'>,
  more: number,
  where: string,
): void {
  if (slots.fits(more)) return;
  const { longest } = slots,
    { window, progress } = context,
    { length } = progress;
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
export function makeRoom(
  caches: Pick<SequenceCaches, 'slots' | 'context' | 'move'>,
  more: number,
  where: string,
  together = false,
): void {
  expectRoom(caches, more, where);
  const { window, progress } = caches.context,
    next = progress.length - progress.shift;
  if (next + more > window || (together && caches.slots.longest < next)) rebase(caches);
}

/**
 * Gives the kept slots of every KV head consecutive rotations from 0 on, aligned so that all heads end where the
 * longest head ends. The next token comes after them, at the same rotation in all layers. Policies and views still see
 * original positions.
 */
function rebase(caches: Pick<SequenceCaches, 'slots' | 'context' | 'move'>): void {
  const { slots, context } = caches,
    { model, progress } = context;
  for (let l = 0; l < model.config.layers; l++) slots.freeUnreachable(l);
  const next = slots.longest;
  caches.move(next);
  progress.shift = progress.length - next;
}
