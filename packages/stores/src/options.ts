import { number, required, text } from '@kv/core';
import type { OptionValues } from '@kv/core';

/** Options of `openStore`. */
export const STORE = {
  url: required(
    text(
      '',
      'an address',
      '`redis://host:port/number`, `rediss://` with TLS, or `s3://bucket/prefix?endpoint=URL&region=NAME`.',
    ),
  ),
  bytes: number(2 ** 28, 'Bytes of the largest entry; larger ones are not kept.', {
    least: 1,
    most: 2 ** 29,
    whole: true,
    of: 'bytes',
  }),
  hours: number(168, 'How long Redis keeps an entry that is not used; a bucket has a rule of its own for that.', {
    above: 0,
    most: 87_600,
    of: 'hours',
  }),
};
/** Options of `openStore`. */
export interface StoreOptions extends OptionValues<typeof STORE> {}
