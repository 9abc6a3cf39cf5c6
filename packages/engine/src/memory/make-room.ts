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

/** Returns the tokens after `more`, from the first rotation on, those of evicted slots included. */
export const tokensAfter = ({ context: { progress } }: Pick<SequenceCaches, 'context'>, more: number): number =>
  progress.length - progress.shift + more;

/** Checks that `more` tokens fit where no slot can be moved. @param by what folded slots at their positions @throws KvError if not */
export function expectRoomUnmoved(
  caches: Pick<SequenceCaches, 'context'>,
  more: number,
  where: string,
  by: string,
): void {
  const { window } = caches.context,
    tokens = tokensAfter(caches, more);
  if (tokens > window)
    throw new KvError(
      where,
      `must fit the model's context of ${window} tokens, evicted ones included: '${by}' folds slots at their positions, and no slot can be moved after that, got ${tokens}`,
    );
}

/**
 * Moves the kept slots together if `more` tokens would exceed the window, or, with `together`, if any slot was evicted
 * since: the kept slots of every KV head get consecutive rotations from 0 on, aligned so that all heads end where the
 * longest head ends. The next token comes after them, at the same rotation in all layers. Policies and views still see
 * original positions.
 * @throws KvError, before anything changes, if the tokens do not fit even then
 */
export function makeRoom(
  caches: Pick<SequenceCaches, 'slots' | 'context' | 'move'>,
  more: number,
  where: string,
  together = false,
): void {
  expectRoom(caches, more, where);
  const { slots, context } = caches,
    { window, progress } = context,
    next = progress.length - progress.shift;
  if (next + more <= window && !(together && slots.longest < next)) return;
  for (let l = 0; l < slots.layers; l++) slots.freeUnreachable(l);
  const { longest } = slots;
  caches.move(longest);
  progress.shift = progress.length - longest;
}
