import { KvError } from '@kv/core';

/** How long to keep trying. */
export interface RetryLimits {
  readonly signal: AbortSignal | undefined;
  /** Attempts that bring nothing before giving up. */
  readonly attempts: number;
  /** Wait before the second attempt; it doubles with every further one. */
  readonly backoffMs: number;
}

/** A failure that may pass: a broken connection, a server in trouble. */
export class ConnectionLost extends Error {
  /** As the server asked, in milliseconds. */
  readonly waitMs: number | undefined;
  constructor(reason: string, waitMs?: number) {
    super(reason);
    this.waitMs = waitMs;
  }
}

const MAX_BACKOFF_MS = 30_000;

/**
 * Tries until it works; an attempt that `progressed` counts as the first.
 * @throws KvError at `at` after the last attempt; at once what is not `ConnectionLost`; the signal's reason once it is aborted
 */
export async function retrying<T>(
  { signal, attempts, backoffMs }: RetryLimits,
  at: string,
  attempt: () => Promise<T>,
  progressed: () => boolean = () => false,
): Promise<T> {
  for (let failures = 0; ; ) {
    signal?.throwIfAborted();
    try {
      return await attempt();
    } catch (error) {
      signal?.throwIfAborted();
      if (!(error instanceof ConnectionLost)) throw error;
      failures = progressed() ? 1 : failures + 1;
      if (failures >= attempts)
        throw new KvError(at, `expected an answer, got ${error.message} (${attempts} attempts)`);
      const backoff = Math.min(MAX_BACKOFF_MS, backoffMs * 2 ** (failures - 1));
      // Half of it at random, so that many clients do not come back together.
      await pause(error.waitMs ?? backoff * (0.5 + Math.random() / 2), signal);
    }
  }
}

/** Waits. @throws the signal's reason */
export async function pause(ms: number, signal: AbortSignal | undefined): Promise<void> {
  signal?.throwIfAborted();
  let end = (): void => {};
  await new Promise<void>((done) => {
    const timer = setTimeout(done, ms);
    end = () => {
      clearTimeout(timer);
      done();
    };
    signal?.addEventListener('abort', end);
  });
  signal?.removeEventListener('abort', end);
  signal?.throwIfAborted();
}

/** The code of a failed request, or its message. */
export function reasonOf(error: unknown): string {
  const { cause, message } = error as {
    readonly cause?: { readonly code?: string; readonly message?: string };
    readonly message?: string;
  };
  return cause?.code ?? (cause?.message || message || String(error));
}
