import { plainText } from './plain.ts';

/** An output of a command. */
export interface Stream {
  write(text: string): unknown;
  readonly isTTY?: boolean;
  /** Width of a line in characters, if known. */
  readonly columns?: number | undefined;
}
/** Minimum width for which text is laid out. */
const LEAST_WIDTH = 20;
/** Returns the width of a line in characters; 80 if unknown. */
export const lineWidth = ({ columns }: Stream): number => Math.max(LEAST_WIDTH, columns || 80);

/** Wraps a stream of this process; its width is COLUMNS, or else that of the terminal. */
export const sizedStream = (stream: NodeJS.WriteStream, env: NodeJS.ProcessEnv = process.env): Stream => ({
  write: (text) => stream.write(text),
  isTTY: stream.isTTY,
  get columns() {
    return Number(/^\d+$/.exec(env.COLUMNS ?? '')) || stream.columns;
  },
});

/** Returns a model's text, without control characters on a terminal. */
export const shownOn = ({ isTTY }: Stream, text: string): string => (isTTY ? plainText(text) : text);

/** Typed input, and Ctrl-C for a command that handles it itself. */
export interface TerminalInput {
  readonly stream: NodeJS.ReadableStream & { readonly isTTY?: boolean };
  /**
   * Calls `listener` on Ctrl-C instead of aborting the signal, unless it returns false; the returned function restores
   * the default.
   */
  takeInterrupts(listener: () => boolean): () => void;
  /** Acts as if Ctrl-C had been pressed: a terminal in raw mode delivers it as a key. */
  interrupt(): void;
}

/** Everything that a command knows of its environment. */
export interface Terminal {
  readonly stdout: Stream;
  readonly stderr: Stream;
  /** Aborts on Ctrl-C, SIGTERM or when the terminal is closed. */
  readonly signal: AbortSignal;
  readonly cwd: string;
  /** Whether to print stack traces instead of sentences. */
  readonly debug: boolean;
  /** Whether reports, logs and errors keep the values that follow keys such as `password:`. @defaultValue false */
  readonly unredacted?: boolean;
  /** Lets the command go on once no one reads stdout any more, instead of ending there. */
  readonly outliveStdout?: () => void;
  /** Absent without interactive input. */
  readonly input?: TerminalInput;
}

/** Returns the terminal of this process. The first Ctrl-C aborts the signal, a second one ends the process. */
export function processTerminal(): Terminal {
  const abort = new AbortController();
  let taken: (() => boolean) | undefined;
  const interrupt = (): void => {
    if (taken?.()) return;
    process.removeListener('SIGINT', interrupt);
    abort.abort();
  };
  process.on('SIGINT', interrupt);
  for (const ends of ['SIGTERM', 'SIGHUP'] as const) process.once(ends, () => abort.abort());
  let outlives = false,
    told = false;
  // A closed pipe (`kv pieces | head`) is no failure.
  process.stdout.on('error', (error: NodeJS.ErrnoException) => {
    if (abort.signal.aborted) return; // the terminal was closed
    if (error.code === 'EPIPE') {
      if (!outlives) process.exit(0);
      if (!told) process.stderr.write('kv: no one reads standard output any more: going on without it\n');
      told = true;
      return;
    }
    process.stderr.write(`kv: expected an output that can be written, got ${error.code ?? error.message}\n`);
    process.exit(2);
  });
  process.stderr.on('error', () => undefined); // no one reads it
  const takeInterrupts = (listener: () => boolean): (() => void) => {
    taken = listener;
    return () => {
      taken = undefined;
    };
  };
  // Opening standard input keeps the process alive, so it is opened only when it is read.
  const input: TerminalInput = {
    get stream() {
      return process.stdin;
    },
    takeInterrupts,
    interrupt,
  };
  return {
    stdout: sizedStream(process.stdout),
    stderr: process.stderr,
    signal: abort.signal,
    cwd: process.cwd(),
    debug: process.env.KV_DEBUG === '1',
    outliveStdout: () => {
      outlives = true;
    },
    input,
  };
}
