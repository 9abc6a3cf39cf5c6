import { KvError } from '@kv/core';
import { ConnectionLost, reasonOf } from './retry.ts';
import type { RetryLimits } from './retry.ts';

/** Settings of the hub for one call. */
export interface Hub extends RetryLimits {
  /** Address without a trailing slash. */
  readonly endpoint: string;
  /** Access token; sent only to the endpoint's own scheme, host and port. */
  readonly token: string | undefined;
  /** What to do if a token is required and there is none. */
  readonly tokenAdvice: string;
  /** Milliseconds without a byte after which an attempt fails. */
  readonly timeoutMs: number;
  readonly fetch: typeof fetch;
}

/** A response whose body is read in chunks. */
export interface HttpResponse {
  readonly status: number;
  readonly headers: Headers;
  /** Returns the next bytes, or undefined at the end. @throws ConnectionLost if the connection breaks or goes quiet */
  read(): Promise<Uint8Array | undefined>;
  /** Ends the connection, even in the middle of the body. */
  end(): void;
}

const REDIRECTS = new Set([301, 302, 303, 307, 308]);
const MAX_REDIRECTS = 10;
/** Longest time that a timer takes: beyond it, it would fire at once. */
const LONGEST_TIMER = 2 ** 31 - 1;

/**
 * Sends a GET and follows redirects, deciding at every hop whether the token may be sent.
 * @throws ConnectionLost; KvError for a redirect that must not be followed
 */
export async function get(hub: Hub, url: string, headers: Readonly<Record<string, string>>): Promise<HttpResponse> {
  const quiet = new AbortController();
  let timer: ReturnType<typeof setTimeout> | undefined;
  const wait = (): void => {
    clearTimeout(timer);
    timer = setTimeout(
      () => quiet.abort(new Error(`nothing for ${hub.timeoutMs / 1000} s`)),
      Math.min(hub.timeoutMs, LONGEST_TIMER),
    );
  };
  const signal = hub.signal ? AbortSignal.any([hub.signal, quiet.signal]) : quiet.signal;
  const end = (): void => {
    clearTimeout(timer);
    quiet.abort();
  };
  const step = async <T>(work: Promise<T>): Promise<T> => {
    try {
      return await work;
    } catch (cause) {
      throw new ConnectionLost(reasonOf(cause));
    } finally {
      clearTimeout(timer);
    }
  };
  let at = new URL(url);
  for (let hops = 0; hops <= MAX_REDIRECTS; hops++) {
    wait();
    const response = await step(
      hub.fetch(at, {
        headers: { 'accept-encoding': 'identity', ...headers, ...authorization(hub, at) },
        redirect: 'manual',
        signal,
      }),
    );
    if (REDIRECTS.has(response.status)) {
      at = target(at, response.headers.get('location'));
      response.body?.cancel().catch(() => {});
      continue;
    }
    const reader = response.body?.getReader();
    return {
      status: response.status,
      headers: response.headers,
      end,
      async read() {
        wait();
        return (await step<{ readonly value?: Uint8Array | undefined }>(reader?.read() ?? Promise.resolve({}))).value;
      },
    };
  }
  end();
  throw new KvError(hub.endpoint, `expected at most ${MAX_REDIRECTS} redirects, got more`);
}

/** Returns the authorization header, for the endpoint's own scheme, host and port only. */
const authorization = ({ endpoint, token }: Hub, at: URL): { readonly authorization?: string } =>
  token !== undefined && at.origin === new URL(endpoint).origin ? { authorization: `Bearer ${token}` } : {};

function target(from: URL, location: string | null): URL {
  const to = location !== null && URL.canParse(location, from) ? new URL(location, from) : undefined;
  if (to === undefined || !/^https?:$/.test(to.protocol) || (from.protocol === 'https:' && to.protocol === 'http:'))
    throw new KvError(
      from.origin,
      `expected a redirect to an address that is as safe, got ${JSON.stringify(location?.slice(0, 200) ?? null)}`,
    );
  return to;
}

/** Reads a whole response of at most `limit` bytes. @throws ConnectionLost; KvError if it is longer */
export async function readAll(answer: HttpResponse, at: string, limit: number): Promise<Uint8Array<ArrayBuffer>> {
  const parts: Uint8Array[] = [];
  let size = 0;
  try {
    for (let part = await answer.read(); part; part = await answer.read()) {
      parts.push(part);
      size += part.length;
      if (size > limit) throw new KvError(at, `expected an answer of at most ${limit} bytes, got more`);
    }
  } finally {
    answer.end();
  }
  const all = new Uint8Array(size);
  for (let part = parts.pop(), at = size; part; part = parts.pop()) all.set(part, (at -= part.length));
  return all;
}
