import { KvError } from '@kv/core';
import { settleOwn } from '@kv/core/engine';
import { STORE } from './options.ts';
import type { StoreOptions } from './options.ts';
import { redisStore } from './redis.ts';
import { s3Store } from './s3.ts';
import type { SharedStore } from './shared-store.ts';

export { STORE } from './options.ts';
export type { StoreOptions } from './options.ts';
export type { SharedStore } from './shared-store.ts';

/**
 * Opens a store. One that does not answer is opened all the same: servers read again what it had, and use it when it is
 * back. Credentials of S3 are those of the environment (`AWS_ACCESS_KEY_ID`, `AWS_SECRET_ACCESS_KEY`,
 * `AWS_SESSION_TOKEN`, `AWS_REGION`).
 * @throws KvError for an address that is none, a password that Redis refuses, and where S3's credentials are missing
 */
export async function openStore(options: StoreOptions): Promise<SharedStore> {
  const { url, bytes, hours } = settleOwn('openStore', STORE, options),
    { protocol } = URL.canParse(url) ? new URL(url) : { protocol: '' },
    bounds = { bytes, seconds: Math.ceil(hours * 3600) };
  if (/^rediss?:$/.test(protocol)) return redisStore(new URL(url), bounds);
  if (protocol === 's3:') return s3Store(new URL(url), bounds);
  throw new KvError('store', 'expected an address such as redis://127.0.0.1:6379 or s3://bucket, got none');
}
