import { createHash, createHmac, randomBytes } from 'node:crypto';
import { once } from 'node:events';
import { createServer } from 'node:http';
import type { IncomingMessage } from 'node:http';
import { afterAll, afterEach, beforeAll, describe, expect, it, vi } from 'vitest';
import { openStore } from '../src/index.ts';

const SECRET = 'wJalrXUtnFEMI/K7MDENG+bPxRfiCYEXAMPLEKEY',
  hmac = (key: string | Buffer, text: string): Buffer => createHmac('sha256', key).update(text).digest();

/** Whether a request is signed with the secret, by AWS's description of Signature Version 4. */
function isSigned({ method = '', url = '', headers }: IncomingMessage): boolean {
  const found =
    /^AWS4-HMAC-SHA256 Credential=me\/(\d{8})\/(eu-test-1)\/s3\/aws4_request, SignedHeaders=([a-z0-9;-]+), Signature=([0-9a-f]{64})$/.exec(
      headers.authorization ?? '',
    );
  if (!found) return false;
  const [, day, region, names, signature] = found,
    lines = names.split(';').map((name) => `${name}:${headers[name]}\n`),
    request = [method, url, '', lines.join(''), names, headers['x-amz-content-sha256']].join('\n'),
    digest = createHash('sha256').update(request).digest('hex'),
    text = ['AWS4-HMAC-SHA256', headers['x-amz-date'], `${day}/${region}/s3/aws4_request`, digest].join('\n'),
    key = hmac(hmac(hmac(hmac(`AWS4${SECRET}`, day), region), 's3'), 'aws4_request');
  return names.includes('host') && names.includes('x-amz-date') && hmac(key, text).toString('hex') === signature;
}

/** Objects of one bucket, as its server has them. */
const objects = new Map<string, Buffer>();
const server = createServer(async (request, response) => {
  const { method, url = '' } = request,
    body = Buffer.concat(await request.toArray()),
    end = (status: number, text: string | Buffer = ''): unknown => response.writeHead(status).end(text);
  if (!isSigned(request)) return end(403, 'SignatureDoesNotMatch');
  if (!url.startsWith('/base/conversations/')) return end(404, 'NoSuchBucket');
  if (method === 'PUT') objects.set(url, body);
  if (method === 'DELETE') objects.delete(url);
  const found = objects.get(url);
  return method === 'GET' ? end(found ? 200 : 404, found ?? 'NoSuchKey') : end(method === 'PUT' ? 200 : 204);
});
let endpoint = '';
const at = (bucket: string): string => `s3://${bucket}?endpoint=${endpoint}/base&region=eu-test-1`;
beforeAll(async () => {
  await once(server.listen(0, '127.0.0.1'), 'listening');
  endpoint = `http://127.0.0.1:${(server.address() as { port: number }).port}`;
});
afterAll(() => void server.close());
const secret = (text: string): void => {
  vi.stubEnv('AWS_ACCESS_KEY_ID', 'me');
  vi.stubEnv('AWS_SECRET_ACCESS_KEY', text);
};
afterEach(() => {
  vi.unstubAllEnvs();
});
const key = (): string => randomBytes(32).toString('hex');

describe('a store in a bucket', () => {
  it('keeps any bytes, replaces and forgets them, by requests that are signed', async () => {
    secret(SECRET);
    const store = await openStore({ url: at('conversations/some/prefix') }),
      one = key(),
      bytes = randomBytes(1_000_000);
    expect(await store.get(one)).toBe(undefined);
    await store.put(one, bytes);
    expect([...objects.keys()]).toEqual([`/base/conversations/some/prefix/${one}.conversation`]);
    expect(Buffer.compare((await store.get(one))!, bytes)).toBe(0);
    await store.put(one, bytes.subarray(7, 17));
    expect(await store.get(one)).toEqual(bytes.subarray(7, 17));
    await store.delete(one);
    expect(await store.get(one)).toBe(undefined);
  });
  it('neither keeps nor reads more than its bytes', async () => {
    secret(SECRET);
    const store = await openStore({ url: at('conversations'), bytes: 10 }),
      large = await openStore({ url: at('conversations') }),
      one = key();
    await store.put(one, new Uint8Array(11));
    expect(await large.get(one)).toBe(undefined);
    await large.put(one, new Uint8Array(11));
    expect(await store.get(one)).toBe(undefined);
  });
  it('fails in one sentence without credentials: another secret, no bucket, no server', async () => {
    secret('another');
    const wrong = await openStore({ url: at('conversations') });
    await expect(wrong.get(key())).rejects.toThrow(
      `${endpoint}/base/conversations: expected GET to succeed, got the status 403`,
    );
    secret(SECRET);
    const none = await openStore({ url: at('none') });
    await expect(none.put(key(), new Uint8Array(1))).rejects.toThrow('expected PUT to succeed, got the status 404');
    const gone = await openStore({ url: 's3://conversations?endpoint=http://127.0.0.1:1' });
    await expect(gone.get(key())).rejects.toThrow('http://127.0.0.1:1/conversations: expected an answer, got ');
  });
  it('is refused without credentials in the environment, and with anything else in its address', async () => {
    secret('');
    await expect(openStore({ url: at('conversations') })).rejects.toThrow(
      'expected AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY in the environment, got none',
    );
    secret(SECRET);
    for (const url of ['s3://me:hush@conversations', 's3://conversations?secret=hush'])
      await expect(openStore({ url })).rejects.toThrow(/^store: expected s3:\/\/bucket(?!.*hush)/);
    await expect(openStore({ url: 's3://conversations?endpoint=file:///etc' })).rejects.toThrow('expected an endpoint');
  });
});
