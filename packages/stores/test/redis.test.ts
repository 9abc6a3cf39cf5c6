import { randomBytes } from 'node:crypto';
import { createServer } from 'node:net';
import { KvError } from '@kv/core';
import { freePort, hasRedis, startRedis } from '@kv/model-testing/redis';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { openStore } from '../src/index.ts';

const there = hasRedis();
if (!there) console.warn('Tests of Redis are skipped: there is no redis-server (apt-get install redis-server)');
let redis: Awaited<ReturnType<typeof startRedis>>;
beforeAll(async () => {
  if (there) redis = await startRedis(['--requirepass', 'hush']);
});
afterAll(() => redis?.stop());
const withPassword = (): string => redis.url.replace('//', '//:hush@');
const key = (): string => randomBytes(32).toString('hex');

describe.runIf(there)('a store in Redis', () => {
  it('keeps any bytes, replaces and forgets them, for the hours it was given', async () => {
    const store = await openStore({ url: withPassword(), hours: 1 }),
      other = await openStore({ url: withPassword(), hours: 1 }),
      [one, two] = [key(), key()],
      whole = randomBytes(3_000_000),
      part = new Uint8Array(whole.buffer, whole.byteOffset + 7, 1000); // a view, of which the rest must not be sent
    expect(await store.get(one)).toBe(undefined);
    await store.put(one, whole);
    await store.put(two, part);
    expect(Buffer.compare((await other.get(one))!, whole)).toBe(0);
    expect(Buffer.compare((await other.get(two))!, part)).toBe(0);
    await other.put(one, part);
    expect((await store.get(one))?.length).toBe(1000);
    await other.delete(one);
    expect(await store.get(one)).toBe(undefined);
    const [left] = redis.ask('-a', 'hush', '--no-auth-warning', 'ttl', `kv:conversation:${two}`);
    expect(Number(left)).toBeGreaterThan(3500);
    expect(Number(left)).toBeLessThanOrEqual(3600);
    store.close();
    other.close();
  });

  it('neither keeps nor reads more than its bytes', async () => {
    const store = await openStore({ url: withPassword(), bytes: 10 }),
      large = await openStore({ url: withPassword() }),
      [one, two] = [key(), key()];
    await store.put(one, new Uint8Array(11));
    expect(await large.get(one)).toBe(undefined);
    await large.put(two, new Uint8Array(11));
    expect(await store.get(two)).toBe(undefined);
    await store.put(two, new Uint8Array(10));
    expect((await store.get(two))?.length).toBe(10);
    store.close();
    large.close();
  });

  it('refuses a wrong password at once, and says nothing of it', async () => {
    for (const url of [redis.url, redis.url.replace('//', '//:guess@')])
      await expect(openStore({ url })).rejects.toThrow(
        /^redis:\/\/127\.0\.0\.1:\d+: expected Redis to answer, got (?:NOAUTH|WRONGPASS)[^\n]*$/,
      );
  });

  it('fails in one sentence without passwords and contents while Redis is away, and goes on when it is back', async () => {
    const own = await startRedis(['--requirepass', 'hush']),
      { port } = new URL(own.url),
      url = own.url.replace('//', '//:hush@'),
      store = await openStore({ url }),
      one = key();
    await store.put(one, Buffer.from('XK7M9P2Q'));
    await own.stop();
    for (const call of [() => store.get(one), () => store.put(one, Buffer.from('XK7M9P2Q')), () => store.delete(one)]) {
      const error = await call().then(
        () => undefined,
        (cause: unknown) => cause as Error & { command?: unknown },
      );
      expect(error).toBeInstanceOf(KvError);
      expect(error?.message).toMatch(/^redis:\/\/127\.0\.0\.1:\d+: expected Redis to answer, got [^\n]+$/);
      expect(JSON.stringify({ ...error, stack: error?.stack, cause: error?.cause })).not.toMatch(/hush|XK7M|command/);
    }
    const again = await startRedis(['--requirepass', 'hush', '--port', port]);
    let back = false;
    for (let i = 0; i < 100 && !back; i++) {
      await new Promise((resolve) => setTimeout(resolve, 50));
      back = await store.put(one, Buffer.from('again')).then(
        () => true,
        () => false,
      );
    }
    expect(String(await store.get(one))).toBe('again');
    store.close();
    await again.stop();
  });
});

describe('an address', () => {
  it('is refused in one sentence where it is none', async () => {
    for (const url of ['localhost:6379', 'http://me:hush@localhost', '/folder', 'x'])
      await expect(openStore({ url }), url).rejects.toThrow(
        'store: expected an address such as redis://127.0.0.1:6379 or s3://bucket, got none',
      );
    await expect(openStore({ url: 'redis://me:50%hush@127.0.0.1' })).rejects.toThrow(
      new KvError('redis://127.0.0.1', 'expected %25 for each % of a password in the address, got a % alone'),
    );
  });
  it('is opened where nothing listens, or nothing answers, and its calls fail', async () => {
    const port = await freePort(),
      away = await openStore({ url: `redis://me:hush@127.0.0.1:${port}` });
    await expect(away.get(key())).rejects.toThrow(
      new KvError(`redis://127.0.0.1:${port}`, 'expected Redis to answer, got ECONNREFUSED'),
    );
    away.close();
    const silent = createServer((socket) => socket.on('error', () => {}));
    await new Promise<void>((resolve) => silent.listen(0, '127.0.0.1', resolve));
    const { port: mute } = silent.address() as { port: number },
      deaf = await openStore({ url: `redis://127.0.0.1:${mute}` });
    await expect(deaf.get(key())).rejects.toThrow(/expected Redis to answer, got /);
    deaf.close();
    silent.close();
  });
});
