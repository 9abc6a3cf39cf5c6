import { KvError } from '@kv/core';
import { Command, CommanderError } from 'commander';
import { benchCommand } from './commands/bench.ts';
import { calibrateCommand } from './commands/calibrate.ts';
import { chatCommand } from './commands/chat.ts';
import { evalCommand } from './commands/eval.ts';
import { completionCommand } from './commands/completion.ts';
import { doctorCommand } from './commands/doctor.ts';
import { explainCommand } from './commands/explain.ts';
import { exportCommand } from './commands/export.ts';
import { needleCommand } from './commands/needle.ts';
import { papersCommand } from './commands/papers.ts';
import { piecesCommand } from './commands/pieces.ts';
import { protocolCommand } from './commands/protocol.ts';
import { runCommand } from './commands/run.ts';
import { serveCommand } from './commands/serve.ts';
import { EXIT_HELP, withExamples } from './help.ts';
import { oneSentence } from './one-sentence.ts';
import { lineWidth } from './terminal.ts';
import type { Terminal } from './terminal.ts';
import { traceCommand } from './commands/trace.ts';
import { VERSION } from './version.ts';

/** Exit codes: done, a fault of kv itself, a bad input, interrupted. */
const EXIT = { ok: 0, fault: 1, input: 2, interrupted: 130 } as const;

const SILENT = { write: (): void => {} };

/** Runs one command and gives its exit code; what is wrong with the input is one sentence on stderr. */
export async function main(argv: readonly string[], outside: Terminal): Promise<number> {
  let stopped = false,
    quiet = false;
  const terminal: Terminal = {
    ...outside,
    get stderr() {
      return quiet ? SILENT : outside.stderr;
    },
  };
  const program = withExamples(
    new Command('kv')
      .description('Ask a language model which KV-cache retention policy still answers at which budget.')
      .version(VERSION)
      .helpCommand(false),
    ['kv needle', 'which policy still lets the embedded model answer, at which budget: a table and a report'],
    ["kv run --prompt-file book.txt --policy 'snapkv(window=16) | caote | topK' --budget 25%", 'one answer'],
    ['kv pieces snapkv', 'all about one piece or method'],
    ['kv doctor', 'what is here, and how fast it is'],
  )
    .addHelpText('after', EXIT_HELP)
    .hook('preAction', (_, command) => {
      quiet = command.opts<{ quiet?: true }>().quiet === true;
    });
  const serve = (terminal: Terminal): Command =>
    serveCommand(terminal, () => {
      stopped = true;
    });
  for (const command of [
    needleCommand,
    runCommand,
    chatCommand,
    serve,
    piecesCommand,
    explainCommand,
    traceCommand,
    papersCommand,
    benchCommand,
    protocolCommand,
    evalCommand,
    calibrateCommand,
    exportCommand,
    doctorCommand,
    completionCommand,
  ])
    program.addCommand(command(terminal).option('-q, --quiet', 'nothing but errors on stderr'));
  const { stdout } = outside;
  for (const command of [program, ...program.commands.flatMap((one) => [one, ...one.commands])])
    command
      .exitOverride()
      .configureHelp({ minWidthToWrap: 20 })
      .configureOutput({
        writeOut: (text) => stdout.write(text),
        writeErr: () => {},
        getOutHelpWidth: () => lineWidth(stdout),
        getOutHasColors: () => stdout.isTTY === true && !process.env.NO_COLOR,
      });
  try {
    if (argv.length === 0) {
      program.outputHelp();
      return EXIT.ok;
    }
    await program.parseAsync(argv, { from: 'user' });
    return terminal.signal.aborted && !stopped ? EXIT.interrupted : EXIT.ok;
  } catch (error) {
    return failed(knownCommands(error, program), outside);
  }
}

/** Where a command is unknown, the sentence lists those that there are. */
function knownCommands(error: unknown, { commands }: Command): unknown {
  if (!(error instanceof CommanderError) || error.code !== 'commander.unknownCommand') return error;
  const names = commands.map((command) => command.name()).join(', ');
  return new CommanderError(error.exitCode, error.code, `${error.message}; the commands are ${names}`);
}

const OUT_OF_MEMORY =
  'memory: expected room for what was asked for, got none: take a smaller model, prompt or budget, fewer workers, or end other programs';
/** An array, a WebAssembly memory or a thread's heap that did not fit; of a thread only name and message arrive. */
const isOutOfMemory = (error: unknown): boolean =>
  error instanceof Error &&
  ((error.name === 'RangeError' && /allocation failed|could not allocate memory/.test(error.message)) ||
    (error as NodeJS.ErrnoException).code === 'ERR_WORKER_OUT_OF_MEMORY');

function failed(error: unknown, { stderr, signal, debug }: Terminal): number {
  if (signal.aborted) return EXIT.interrupted;
  if (error instanceof CommanderError && error.exitCode === 0) return EXIT.ok;
  if (debug) stderr.write(`${error instanceof Error ? error.stack : String(error)}\n`);
  const expected = KvError.is(error) || error instanceof CommanderError || isOutOfMemory(error);
  if (!debug)
    stderr.write(
      `${isOutOfMemory(error) ? OUT_OF_MEMORY : oneSentence(error)}${expected ? '' : ' (this is a fault of kv: KV_DEBUG=1 shows where)'}\n`,
    );
  return expected ? EXIT.input : EXIT.fault;
}
