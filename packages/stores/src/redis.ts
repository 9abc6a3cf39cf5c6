import { setTimeout as sleep } from 'node:timers/promises';
import { KvError } from '@kv/core';
import { Redis } from 'ioredis';
import type { SharedStore, StoreBounds } from './shared-store.ts';

/** Milliseconds after which one that does not answer is taken to be away. */
const OPENING = 2000;
/** Commands fail at once while Redis is away; the connection is tried again without end. */
const CONNECTION = {
  lazyConnect: true,
  connectTimeout: 3000,
  /** Milliseconds without a reply after which a connection is given up. */
  socketTimeout: 10_000,
  enableOfflineQueue: false,
  autoResendUnfulfilledCommands: false,
  maxRetriesPerRequest: 0,
  retryStrategy: (times: number): number => Math.min(50 * 2 ** times, 2000),
};

/** Opens a store in Redis. @throws KvError for an address without a host, and a password that is refused */
export async function redisStore(url: URL, { bytes, seconds }: StoreBounds): Promise<SharedStore> {
  const { protocol, host, username, password } = url;
  if (host === '') throw new KvError('store', 'expected an address such as redis://127.0.0.1:6379, got no host');
  const address = `${protocol}//${host}`;
  try {
    [username, password].map(decodeURIComponent);
  } catch {
    throw new KvError(address, 'expected %25 for each % of a password in the address, got a % alone');
  }
  const client = new Redis(url.href, CONNECTION);
  let why: string | undefined;
  client.on('error', (error: NodeJS.ErrnoException) => {
    why = error.code ?? error.message;
  });
  client.on('ready', () => {
    why = undefined;
  });
  // errors of ioredis carry the command, with the password or the conversation
  const failure = (cause: unknown): KvError =>
    new KvError(
      address,
      `expected Redis to answer, got ${why ?? (cause instanceof Error ? cause.message : 'nothing')}`,
    );
  const refused = client.connect().then(
    () => undefined,
    (cause: unknown) =>
      /NOAUTH|WRONGPASS|NOPERM/.test(`${(cause as Error).message} ${why}`) ? failure(cause) : undefined,
  );
  const refusal = await Promise.race([refused, sleep(OPENING, undefined, { ref: false })]);
  if (refusal) {
    client.disconnect();
    throw refusal;
  }
  /** Runs commands, of which the first's result counts. */
  const run = async (pipeline: ReturnType<Redis['pipeline']>): Promise<unknown> => {
    try {
      const results = await pipeline.exec(),
        failed = results?.find(([error]) => error !== null);
      if (failed) throw failed[0];
      return results?.[0]?.[1];
    } catch (cause) {
      throw failure(cause);
    }
  };
  const named = (key: string): string => `kv:conversation:${key}`;
  return {
    shared: true,
    async get(key) {
      const found = await run(client.pipeline().getrangeBuffer(named(key), 0, bytes).expire(named(key), seconds));
      return Buffer.isBuffer(found) && found.length > 0 && found.length <= bytes ? found : undefined;
    },
    async put(key, value) {
      if (value.length > bytes) return;
      const { buffer, byteOffset, length } = value;
      await run(client.pipeline().set(named(key), Buffer.from(buffer, byteOffset, length), 'EX', seconds));
    },
    async delete(key) {
      await run(client.pipeline().del(named(key)));
    },
    close: () => client.disconnect(),
  };
}
