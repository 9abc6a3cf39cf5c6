import { KvError, number, object } from '@kv/core';
import type { OptionValues } from '@kv/core';
import { joinedBytes } from './join-bytes.ts';

export const DOWNLOAD = {
  signal: object<AbortSignal>('an AbortSignal', 'Ends it early.'),
  maxBytes: number(2 ** 32, 'Most bytes of a file.'),
  timeoutMs: number(30_000, 'Milliseconds without a byte after which a server has stopped answering.'),
};
/** Options of fetching a model's files. */
export interface DownloadOptions extends OptionValues<typeof DOWNLOAD> {}

/**
 * Downloads a whole file.
 * @throws KvError for a refusal, silence or too many bytes; the signal's reason when aborted
 */
export async function download(url: string | URL, options?: DownloadOptions): Promise<Uint8Array> {
  const parts: Uint8Array[] = [];
  await receive(url, (part) => parts.push(part), options);
  return joinedBytes(parts);
}

/**
 * Downloads a whole file, part by part.
 * @throws KvError for a refusal, silence or too many bytes; the signal's reason when aborted
 */
export async function receive(
  url: string | URL,
  take: (part: Uint8Array<ArrayBuffer>) => void,
  { maxBytes = DOWNLOAD.maxBytes.default, ...options }: DownloadOptions = {},
): Promise<void> {
  const at = String(url);
  const tooMany = (got: string): KvError =>
    new KvError(at, `expected a file of at most ${maxBytes} bytes, got ${got} (maxBytes lifts this)`);
  return answered(url, {}, options, async ({ ok, status, headers, body }, step) => {
    if (!ok) throw new KvError(at, `download failed: HTTP status ${status}`);
    const promised = Number(headers.get('content-length') ?? 0);
    if (promised > maxBytes) throw tooMany(String(promised));
    let size = 0;
    const reader = body?.getReader();
    for (let part = await (reader && step(reader.read())); part?.value; part = await (reader && step(reader.read()))) {
      const { value } = part;
      size += value.length;
      if (size > maxBytes) throw tooMany('more');
      take(value);
    }
  });
}

/**
 * Returns whether the server has no file there. Stores without a list say 403 for it, and servers may refuse HEAD, so a
 * refusal counts only where GET is refused too.
 * @throws the signal's reason when aborted
 */
export async function isAbsent(url: string | URL, options: DownloadOptions = {}): Promise<boolean> {
  const statusOf = (method: string): Promise<number> =>
    answered(url, { method }, options, async ({ status }) => status);
  try {
    const status = await statusOf('HEAD');
    return ABSENT.includes(REFUSED.includes(status) ? await statusOf('GET') : status);
  } catch (error) {
    options.signal?.throwIfAborted();
    if (KvError.is(error)) return false;
    throw error;
  }
}
const REFUSED: readonly number[] = [403, 405, 501],
  ABSENT: readonly number[] = [403, 404, 405, 410];

/** Longest time that a timer takes: beyond it, it would fire at once. */
const LONGEST_TIMER = 2 ** 31 - 1;

/** Calls `use` with a response, where each `step` must finish in time; always ends the connection. */
async function answered<T>(
  url: string | URL,
  request: RequestInit,
  { signal, timeoutMs = DOWNLOAD.timeoutMs.default }: DownloadOptions,
  use: (response: Response, step: <S>(work: Promise<S>) => Promise<S>) => Promise<T>,
): Promise<T> {
  const quiet = new AbortController();
  const step = async <S>(work: Promise<S>): Promise<S> => {
    const timer = setTimeout(
      () => quiet.abort(new Error(`no data for ${timeoutMs / 1000} s`)),
      Math.min(timeoutMs, LONGEST_TIMER),
    );
    try {
      return await work;
    } catch (cause) {
      signal?.throwIfAborted();
      const { message, cause: inner } = (quiet.signal.aborted ? quiet.signal.reason : cause) as Error;
      const why = (inner as { readonly code?: string } | undefined)?.code ?? message;
      throw new KvError(String(url), `download failed: ${why}`);
    } finally {
      clearTimeout(timer);
    }
  };
  signal?.throwIfAborted();
  try {
    const either = signal === undefined ? quiet.signal : AbortSignal.any([signal, quiet.signal]);
    return await use(await step(fetch(url, { ...request, signal: either })), step);
  } finally {
    quiet.abort();
  }
}
