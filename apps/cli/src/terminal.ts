/** Where a command writes. */
export interface Stream {
  write(text: string): unknown;
  readonly isTTY?: boolean;
}

/** All that a command knows of the outside. */
export interface Terminal {
  readonly stdout: Stream;
  readonly stderr: Stream;
  /** Aborted by Ctrl-C. */
  readonly signal: AbortSignal;
  readonly cwd: string;
  /** Stack traces instead of sentences. */
  readonly debug: boolean;
}

/** The terminal of this process. The first Ctrl-C aborts the signal, a second one ends the process. */
export function processTerminal(): Terminal {
  const abort = new AbortController();
  for (const name of ['SIGINT', 'SIGTERM'] as const) process.once(name, () => abort.abort());
  // A reader that has seen enough (`kv pieces | head`) is no failure.
  process.stdout.on('error', (error: NodeJS.ErrnoException) => {
    if (error.code === 'EPIPE') process.exit(0);
    throw error;
  });
  return { stdout: process.stdout, stderr: process.stderr, signal: abort.signal, cwd: process.cwd(), debug: process.env.KV_DEBUG === '1' };
}
