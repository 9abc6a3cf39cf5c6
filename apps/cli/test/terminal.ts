import { mkdtempSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { Readable } from 'node:stream';
import { main } from '../src/main.ts';
import type { TerminalInput, Terminal } from '../src/terminal.ts';

export interface Ran {
  readonly code: number;
  readonly stdout: string;
  /** stderr without the line that names the engine. */
  readonly stderr: string;
  /** The engine that the line names, if there is one. */
  readonly engine?: string;
}

export interface Run {
  readonly cwd?: string;
  readonly signal?: AbortSignal;
  /** Characters of a line of the terminal to which stdout goes. */
  readonly columns?: number | undefined;
  /** What is typed, a line a turn; without it there is no interactive input. */
  readonly lines?: readonly string[];
  /** The lines come together with the end of the input, as from a pipe. @defaultValue false */
  readonly piped?: boolean;
  /** What a pipe sends, instead of lines. */
  readonly stdin?: Uint8Array;
  /** Called with all that was written to stdout so far; may press Ctrl-C. */
  readonly onWrite?: (stdout: string, interrupt: () => void) => void;
}

/** Runs `kv` in this process, without a terminal. */
export const kv = (args: readonly string[], how?: Run): Promise<Ran> => ran((terminal) => main(args, terminal), how);

/** The same for any program. */
export async function ran(
  program: (terminal: Terminal) => Promise<number>,
  { cwd = tmpdir(), columns, signal, lines, piped = false, stdin, onWrite }: Run = {},
): Promise<Ran> {
  const abort = new AbortController();
  let stdout = '',
    stderr = '',
    taken: (() => boolean) | undefined;
  const interrupt = (): void => {
    if (!taken?.()) abort.abort();
  };
  const typed = lines?.map((line) => `${line}\n`),
    sent = stdin ? [stdin] : piped && typed ? [typed.join('')] : typed;
  const input: TerminalInput | undefined = sent && {
    stream: Readable.from(sent),
    interrupt,
    takeInterrupts(listener) {
      taken = listener;
      return () => {
        taken = undefined;
      };
    },
  };
  const code = await program({
    stdout: {
      ...(columns !== undefined && { isTTY: true, columns }),
      write: (text) => {
        stdout += text;
        onWrite?.(stdout, interrupt);
      },
    },
    stderr: { write: (text) => void (stderr += text) },
    signal: signal ?? abort.signal,
    cwd,
    debug: false,
    ...(input && { input }),
  });
  return { code, stdout, ...engineApart(stderr) };
}

/** What was written to stderr, and the engine that a line of it names. */
function engineApart(stderr: string): Pick<Ran, 'stderr' | 'engine'> {
  const line = /^engine: (.*)\n/m.exec(stderr);
  return line ? { stderr: stderr.replace(line[0], ''), engine: line[1] } : { stderr };
}

/** An empty folder. */
export const folder = (): string => mkdtempSync(join(tmpdir(), 'kv-cli-'));
