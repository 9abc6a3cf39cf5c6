import { KvError } from '@kv/core';
import { showValue } from '@kv/core/engine';
import type { PositionSpan } from '@kv/core';

const has = (x: unknown, ...members: readonly string[]): boolean =>
  typeof x === 'object' &&
  x !== null &&
  members.every((member) => (x as Record<string, unknown>)[member] !== undefined);
const shown = (x: unknown): string => (has(x, 'then') ? 'a promise, which await resolves' : showValue(x));

/** @throws KvError for what is no model, such as its path or the promise of one */
export function expectModel(at: string, model: unknown): void {
  if (!has(model, 'config', 'tokenizer', 'memory'))
    throw new KvError(at, `expected a model, such as await loadModel('embedded') returns, got ${shown(model)}`);
}

/** @throws KvError for what is no sequence */
export function expectSequence(at: string, sequence: unknown): void {
  if (!has(sequence, 'model', 'memory', 'stats'))
    throw new KvError(at, `expected a sequence, such as new Sequence(model), got ${shown(sequence)}`);
}

/** @throws KvError for anything but ranges of positions, each up to, and without, its second number */
export function expectSpans(spans: readonly PositionSpan[]): void {
  const isSpan = ([from, to]: readonly unknown[]): boolean =>
    [from, to].every((at) => Number.isSafeInteger(at) && Number(at) >= 0) && Number(from) <= Number(to);
  if (
    !Array.isArray(spans) ||
    !spans.every((span: unknown) => Array.isArray(span) && span.length === 2 && isSpan(span))
  )
    throw new KvError('protect', `expected ranges of positions such as [[0, 12], [40, 52]], got ${showValue(spans)}`);
}

/** @throws KvError for anything but a list of ids from 0 to below the size of the vocabulary */
export function expectIds(ids: ArrayLike<number>, vocab: number): void {
  if (!Array.isArray(ids) && !ArrayBuffer.isView(ids))
    throw new KvError(
      'decoder',
      `expected a list of token ids, such as model.tokenizer.encode(text).ids, got ${shown(ids)}`,
    );
  for (let i = 0; i < ids.length; i++)
    if (!(Number.isInteger(ids[i]) && ids[i] >= 0 && ids[i] < vocab))
      throw new KvError('decoder', `a token id must be an integer from 0 to ${vocab - 1}, got ${ids[i]}`);
}
