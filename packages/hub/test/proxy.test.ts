import { afterAll, beforeAll, beforeEach, describe, expect, it } from 'vitest';
import { routeOf } from '../src/proxy.ts';
import { cache, CHECKPOINT, fetchFrom, holds, single } from './model.ts';
import { startProxy } from './proxy.ts';
import type { TestProxy } from './proxy.ts';
import { startHub } from './server.ts';
import type { FakeHub } from './server.ts';

let hub: FakeHub, proxy: TestProxy;
beforeAll(async () => {
  [hub, proxy] = await Promise.all([startHub({ 'org/tiny': single() }), startProxy()]);
});
afterAll(() => Promise.all([hub.close(), proxy.close()]));
beforeEach(() => {
  hub.seen.length = proxy.seen.length = 0;
});

const through = async (env: Record<string, string>): Promise<boolean> =>
  holds(await fetchFrom(hub, cache(), 'org/tiny', { env }), single(), CHECKPOINT);
const authorization = `Basic ${Buffer.from('me:secret').toString('base64')}`;

describe('a proxy', () => {
  it.each(['HTTP_PROXY', 'http_proxy'])('of %s takes every request, with its user and password', async (name) => {
    expect(await through({ [name]: proxy.url })).toBe(true);
    expect(proxy.seen).toHaveLength(hub.seen.length);
    expect(hub.seen.length).toBeGreaterThan(CHECKPOINT.length);
    for (const { line, authorization: given } of proxy.seen)
      expect([line.split('?')[0].slice(0, 21), given]).toEqual(['GET http://127.0.0.1:', authorization]);
  });
  it('is left out for the hosts of NO_PROXY, for https, and where none is named', async () => {
    for (const env of [
      { HTTP_PROXY: proxy.url, NO_PROXY: 'example.org,127.0.0.1' },
      { HTTP_PROXY: proxy.url, no_proxy: '*' },
      { HTTPS_PROXY: proxy.url },
      { HTTP_PROXY: '' },
    ])
      expect(await through(env as Record<string, string>)).toBe(true);
    expect(proxy.seen).toEqual([]);
  });
  it('tunnels https', async () => {
    const route = await routeOf({ HTTPS_PROXY: proxy.url });
    // The test hub has no TLS: the tunnel is established, and the handshake in it fails.
    await expect(route.fetch(hub.url.replace('http:', 'https:'))).rejects.toThrow(
      /^.+ \(a proxy is set: 127\.0\.0\.1:\d+\)$/,
    );
    expect(proxy.seen).toEqual([{ line: `CONNECT ${new URL(hub.url).host}`, authorization }]);
    await route.close();
    const plain = await routeOf({ HTTP_PROXY: proxy.url });
    await expect(plain.fetch(hub.url.replace('http:', 'https:'))).rejects.toThrow(/^fetch failed$/);
    expect(proxy.seen).toHaveLength(1);
    await plain.close();
  });
  it('that does not answer is named, without its password', async () => {
    const gone = await startProxy();
    await gone.close();
    await expect(through({ HTTP_PROXY: gone.url })).rejects.toThrow(
      `expected an answer, got ECONNREFUSED (a proxy is set: ${new URL(gone.url).host}) (3 attempts)`,
    );
  });
  it.each([
    ['socks5://me:secret@host:1080', 'HTTP_PROXY: expected an http(s) URL of a proxy, got one of socks5:'],
    ['me secret', 'HTTP_PROXY: expected an http(s) URL of a proxy, got text that is no URL'],
  ])('%j is refused', async (url, message) => {
    await expect(through({ HTTP_PROXY: url })).rejects.toThrow(message);
  });
});
