import { KvError, required, text, whole } from '@kv/core';
import type { ResolvedOptions } from '@kv/core';
import { Redis } from 'ioredis';

/** Address of a queue. */
export const ADDRESS = {
  url: required(text('', 'an address', '`redis://host:port`, or `rediss://` with TLS.')),
  name: required(text('', 'a name', 'Name of the queue; jobs go to the workers of the same name.')),
  reconnectSeconds: whole(30, 'seconds', 'How long to wait for a Redis that went away.'),
};
type QueueAddress = ResolvedOptions<typeof ADDRESS>;

/** An established connection. */
export interface Connection {
  readonly client: Redis;
  /** Rejects with one sentence once Redis has been away for too long. */
  readonly lost: Promise<never>;
  close(): void;
}

/** Returns an address for display, without its password. @throws KvError for an invalid one */
function addressOf(url: string): string {
  const none = { protocol: '', host: '', username: '', password: '' },
    { protocol, host, username, password } = URL.canParse(url) ? new URL(url) : none;
  if (!/^rediss?:$/.test(protocol) || host === '')
    throw new KvError('queue', 'expected an address such as redis://127.0.0.1:6379, got none');
  const address = `${protocol}//${host}`;
  try {
    [username, password].map(decodeURIComponent);
  } catch {
    throw new KvError(address, 'expected %25 for each % of a password in the address, got a % alone');
  }
  return address;
}

/** Connects to Redis. @throws KvError in one sentence if nothing answers there, or it requires a password */
export async function connect({ url, reconnectSeconds }: QueueAddress): Promise<Connection> {
  const address = addressOf(url);
  let lostAt: number | undefined,
    ready = false,
    closed = false,
    why = 'nothing';
  const client = new Redis(url, {
    lazyConnect: true,
    maxRetriesPerRequest: null, // BullMQ waits as long as the connection lives
    connectTimeout: 10_000,
    retryStrategy(times) {
      if (!ready) return null;
      lostAt ??= Date.now();
      return Date.now() - lostAt > 1000 * reconnectSeconds ? null : Math.min(50 * 2 ** times, 1000);
    },
  });
  client.on('error', (error: NodeJS.ErrnoException) => {
    why = error.code ?? error.message;
  });
  client.on('ready', () => {
    lostAt = undefined;
  });
  const lost = new Promise<never>((_, reject) => {
    client.on('end', () => {
      if (ready && !closed)
        reject(new KvError(address, `expected Redis to come back within ${reconnectSeconds} s, got ${why}`));
    });
  });
  lost.catch(() => {}); // callers race it; without one, a rejection is ignored
  try {
    await client.connect();
    await client.ping();
  } catch (error) {
    client.disconnect();
    throw new KvError(address, `expected a Redis server that answers, got ${why === 'nothing' ? String(error) : why}`);
  }
  ready = true;
  return {
    client,
    lost,
    close: () => {
      closed = true;
      client.disconnect();
    },
  };
}
