import { KvError } from '@kv/core';

/** Limits of retrying. */
export interface RetryLimits {
  readonly signal: AbortSignal | undefined;
  /** Maximum attempts in a row that bring no bytes. */
  readonly attempts: number;
  /** Milliseconds before the second attempt, doubled for every further one. */
  readonly backoffMs: number;
}

/** A failure that may pass: a broken connection, a server in trouble. */
export class ConnectionLost extends Error {
  /** Wait that the server asked for, in milliseconds. */
  readonly waitMs: number | undefined;
  constructor(reason: string, waitMs?: number) {
    super(reason);
    this.waitMs = waitMs;
  }
}

const MAX_BACKOFF_MS = 30_000;

/**
 * Retries until `attempt` succeeds; a failed attempt that `progressed` does not count, and those before it no longer do.
 * @throws KvError at `at` after the last attempt; any error other than `ConnectionLost` at once; the signal's reason
 * when aborted
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
      failures = progressed() ? 0 : failures + 1;
      if (failures >= attempts)
        throw new KvError(at, `expected an answer, got ${error.message} (${attempts} attempts)`);
      const backoff = Math.min(MAX_BACKOFF_MS, backoffMs * 2 ** Math.max(0, failures - 1));
      // Half of the wait is random, so that many clients do not come back together.
      await pause(error.waitMs ?? backoff * (0.5 + Math.random() / 2), signal);
    }
  }
}

/** Waits. @throws the signal's reason when aborted */
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

/** Returns the code of a failed request, or its message. */
export function reasonOf(error: unknown): string {
  const { cause, message } = error as {
    readonly cause?: { readonly code?: string; readonly message?: string };
    readonly message?: string;
  };
  return cause?.code ?? (cause?.message || message || String(error));
}
