import { checkWord, positions, tokens } from '@kv/core';
import { weigher } from '@kv/core/old';
import type { Ops, Tensor, Weigher } from '@kv/core';
import { counts } from './counts.ts';

export interface RarityOptions {
  /** 1 / (1 + ln(1 + c)), 1 / (1 + c) or e^-c. @defaultValue 'log' */
  readonly form?: 'log' | 'inverse' | 'exponential';
}

const FORMS: Readonly<Record<NonNullable<RarityOptions['form']>, (ops: Ops, c: Tensor) => Tensor>> = {
  log: (ops, c) => ops.div(1, ops.add(1, ops.map('log1p', c))),
  inverse: (ops, c) => ops.div(1, ops.add(1, c)),
  exponential: (ops, c) => ops.exp(ops.mul(c, -1)),
};

/**
 * Von Restorff rarity, U = 1 / (1 + ln(1 + c)), c the occurrences of a slot's token id in the present context.
 *
 * @remarks CrystalCache, eq. 20 and 21; 1 / (1 + c) and e^-c are what the paper names and never ran. Weights in [0,
 * 1/(1 + ln 2)] on KV rows `[G, n]`;
 * needs ids only, O(N). The context is everything seen so far: the paper counts over all n input ids, so evicted tokens
 * count too.
 * @throws KvError if `form` is another word.
 */
export function rarity({ form = 'log' }: RarityOptions = {}): Weigher<'rarity'> {
  checkWord('rarity', 'form', form, ['log', 'inverse', 'exponential']);
  return weigher(
    { name: 'rarity', options: { form: form === 'log' ? undefined : form } },
    [tokens, positions],
    ({ ops, at, tokens: { ids }, positions: p }) => FORMS[form](ops, ops.take(ops.from(counts(ids, at.length)), p)),
  );
}
