import { KvError } from '@kv/core';
import { AwsClient } from 'aws4fetch';
import type { SharedStore, StoreBounds } from './shared-store.ts';

/** Milliseconds that a request may take; the server gives up earlier. */
const PATIENCE = 30_000;

/** Opens a store in a bucket. @throws KvError for an address without a bucket or with another query, and no credentials */
export function s3Store(url: URL, { bytes }: Pick<StoreBounds, 'bytes'>): SharedStore {
  const { AWS_ACCESS_KEY_ID: accessKeyId, AWS_SECRET_ACCESS_KEY: secretAccessKey, AWS_SESSION_TOKEN } = process.env,
    region = url.searchParams.get('region') ?? process.env.AWS_REGION ?? 'us-east-1',
    endpoint = url.searchParams.get('endpoint') ?? `https://s3.${region}.amazonaws.com`,
    unknown = [...url.searchParams.keys()].find((name) => name !== 'region' && name !== 'endpoint');
  if (url.host === '' || url.username !== '' || url.password !== '' || unknown !== undefined)
    throw new KvError(
      'store',
      `expected s3://bucket/prefix?endpoint=URL&region=NAME with credentials in the environment, got ${unknown === undefined ? 'another address' : `'${unknown}' too`}`,
    );
  if (!URL.canParse(endpoint) || !/^https?:$/.test(new URL(endpoint).protocol))
    throw new KvError('store', 'expected an endpoint such as https://s3.example.com, got another text');
  if (!accessKeyId || !secretAccessKey)
    throw new KvError('store', 'expected AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY in the environment, got none');
  const { origin, pathname } = new URL(endpoint),
    client = new AwsClient({
      ...{ accessKeyId, secretAccessKey, region, service: 's3', retries: 0 },
      ...(AWS_SESSION_TOKEN && { sessionToken: AWS_SESSION_TOKEN }),
    }),
    folder = [pathname, url.host, url.pathname]
      .map((part) => part.replace(/^\/+|\/+$/g, ''))
      .filter((part) => part !== ''),
    at = `${origin}/${folder.join('/')}`;
  /** Returns the body of an answer, of at most `bytes`; undefined for what is not there, or longer. */
  const ask = async (method: string, key: string, body?: Uint8Array): Promise<Uint8Array | undefined> => {
    let status: number;
    try {
      const answer = await client.fetch(`${at}/${key}.conversation`, {
        ...{ method, redirect: 'error', signal: AbortSignal.timeout(PATIENCE) },
        ...(body && { body: body as Uint8Array<ArrayBuffer> }),
      });
      ({ status } = answer);
      if (answer.ok && method === 'GET') return await bounded(answer, bytes);
      await answer.body?.cancel();
      if (answer.ok || (status === 404 && method !== 'PUT')) return undefined;
    } catch (cause) {
      const { message, cause: why } = cause as Error & { cause?: NodeJS.ErrnoException };
      throw new KvError(at, `expected an answer, got ${why?.code ?? message}`);
    }
    throw new KvError(at, `expected ${method} to succeed, got the status ${status}`);
  };
  return {
    shared: true,
    get: (key) => ask('GET', key),
    async put(key, value) {
      if (value.length <= bytes) await ask('PUT', key, value);
    },
    async delete(key) {
      await ask('DELETE', key);
    },
    close() {},
  };
}

/** Reads a body of at most this many bytes; undefined for a longer one. */
async function bounded({ body }: Response, bytes: number): Promise<Uint8Array | undefined> {
  const parts: Uint8Array[] = [];
  let length = 0;
  for await (const part of (body ?? []) as AsyncIterable<Uint8Array>) {
    length += part.length;
    if (length > bytes) return undefined; // leaving the loop cancels the rest
    parts.push(part);
  }
  return Buffer.concat(parts);
}
