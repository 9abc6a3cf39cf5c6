import { plainText } from './plain.ts';

/** Where a command writes. */
export interface Stream {
  write(text: string): unknown;
  readonly isTTY?: boolean;
  /** Characters of a line, where that is known. */
  readonly columns?: number | undefined;
}
/** Fewest characters of a line that text is laid out for. */
const LEAST_WIDTH = 20;
/** Characters of a line: 80 where nothing says how many. */
export const lineWidth = ({ columns }: Stream): number => Math.max(LEAST_WIDTH, columns || 80);

/** A stream of this process, whose lines have as many characters as COLUMNS says, or else the terminal. */
export const sizedStream = (stream: NodeJS.WriteStream, env: NodeJS.ProcessEnv = process.env): Stream => ({
  write: (text) => stream.write(text),
  isTTY: stream.isTTY,
  get columns() {
    return Number(/^\d+$/.exec(env.COLUMNS ?? '')) || stream.columns;
  },
});

/** A model's text, as it is but on a terminal, whose cursor it must not move. */
export const shownOn = ({ isTTY }: Stream, text: string): string => (isTTY ? plainText(text) : text);

/** What a person types, and Ctrl-C while a command wants it for itself. */
export interface TerminalInput {
  readonly stream: NodeJS.ReadableStream & { readonly isTTY?: boolean };
  /**
   * Calls `listener` at Ctrl-C instead of aborting the signal, unless it gives false; the function returned gives
   * Ctrl-C back.
   */
  takeInterrupts(listener: () => boolean): () => void;
  /** As if Ctrl-C had been pressed: a terminal that reads keys one by one sees it as a key. */
  interrupt(): void;
}

/** All that a command knows of the outside. */
export interface Terminal {
  readonly stdout: Stream;
  readonly stderr: Stream;
  /** Aborted by Ctrl-C, SIGTERM or a terminal that is closed. */
  readonly signal: AbortSignal;
  readonly cwd: string;
  /** Stack traces instead of sentences. */
  readonly debug: boolean;
  /** Reports, logs and errors keep the values behind keys such as `password:`. @defaultValue false */
  readonly unredacted?: boolean;
  /** Absent where nobody can type. */
  readonly input?: TerminalInput;
}

/** The terminal of this process. The first Ctrl-C aborts the signal, a second one ends the process. */
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
  // A reader that has seen enough (`kv pieces | head`) is no failure.
  process.stdout.on('error', (error: NodeJS.ErrnoException) => {
    if (abort.signal.aborted) return; // a terminal that was closed
    if (error.code === 'EPIPE') process.exit(0);
    process.stderr.write(`kv: expected an output that can be written, got ${error.code ?? error.message}\n`);
    process.exit(2);
  });
  process.stderr.on('error', () => undefined); // nobody reads it
  const takeInterrupts = (listener: () => boolean): (() => void) => {
    taken = listener;
    return () => {
      taken = undefined;
    };
  };
  // Opening standard input keeps a process waiting for it, so it is opened where it is read.
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
    input,
  };
}
