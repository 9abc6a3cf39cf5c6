import { KvError } from '@kv/core';
import { outOfMemory } from '@kv/core/engine';
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
import { workerCommand } from './commands/worker.ts';
import { EXIT_HELP, fittedHelp, HELP, withExamples } from './help.ts';
import { oneSentence } from './one-sentence.ts';
import { systemSentence } from './system-error.ts';
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
    flags: Flags = {};
  const terminal: Terminal = {
    ...outside,
    get stderr() {
      return flags.quiet ? SILENT : outside.stderr;
    },
    get unredacted() {
      return flags.unredacted === true;
    },
  };
  const program = createProgram(terminal, {
    onFlags: (given) => {
      flags = given;
    },
    onStop: () => {
      stopped = true;
    },
  });
  const asked = helpAsked(argv, program);
  try {
    if (argv.length === 0) {
      program.outputHelp();
      return EXIT.ok;
    }
    await program.parseAsync(asked, { from: 'user' });
    return terminal.signal.aborted && !stopped ? EXIT.interrupted : EXIT.ok;
  } catch (error) {
    return failed(knownCommands(error, commandOf(program, asked)[0]), terminal, outside.stderr);
  }
}

/** Flags of every command. */
interface Flags {
  readonly quiet?: true;
  readonly unredacted?: true;
}

/** All commands; `onFlags` is given the flags of the one that runs, `onStop` is called where a signal is its ordinary end. */
export function createProgram(
  terminal: Terminal,
  { onFlags, onStop }: { readonly onFlags: (flags: Flags) => void; readonly onStop: () => void },
): Command {
  const program = withExamples(
    new Command('kv')
      .description('Ask a language model which KV-cache retention policy still answers at which budget.')
      .version(VERSION)
      .helpCommand('help [command]', 'the help of one command'),
    ['kv needle', 'which policy still lets the embedded model answer, at which budget: a table and a report'],
    ["kv run --prompt-file book.txt --policy 'snapkv(window=16,kernel=17,pooling=max)' --budget 25%", 'one answer'],
    ['kv pieces snapkv', 'all about one piece or method'],
    ['kv doctor', 'what is here, and how fast it is'],
  )
    .addHelpText('after', EXIT_HELP)
    .hook('preAction', (_, command) => {
      onFlags(command.opts<Flags>());
    });
  /** Of commands that a signal ends in the ordinary way. */
  const ending =
    (command: (terminal: Terminal, onStop: () => void) => Command) =>
    (terminal: Terminal): Command =>
      command(terminal, onStop);
  for (const command of [
    needleCommand,
    runCommand,
    chatCommand,
    ending(serveCommand),
    piecesCommand,
    explainCommand,
    traceCommand,
    papersCommand,
    benchCommand,
    protocolCommand,
    evalCommand,
    ending(workerCommand),
    calibrateCommand,
    exportCommand,
    doctorCommand,
    completionCommand,
  ])
    program.addCommand(
      command(terminal)
        .option('-q, --quiet', 'nothing but errors on stderr')
        .option('--unredacted', "reports, logs and errors show what stands behind keys such as 'password:'"),
    );
  const { stdout } = terminal,
    width = (): number => lineWidth(stdout),
    colored = (): boolean => stdout.isTTY === true && !process.env.NO_COLOR,
    help = (text: string): unknown => stdout.write(fittedHelp(text, width()));
  for (const command of [program, ...program.commands.flatMap((one) => [one, ...one.commands])])
    command
      .exitOverride()
      .configureHelp(HELP)
      .configureOutput({
        writeOut: help,
        // what a group of commands prints where none of them is named; sentences are written below
        writeErr: help,
        outputError: () => {},
        getOutHelpWidth: width,
        getErrHelpWidth: width,
        getOutHasColors: colored,
        getErrHasColors: colored,
      });
  return program;
}

/** The command that the first words name, and the words behind its name. */
function commandOf(program: Command, words: readonly string[]): readonly [Command, readonly string[]] {
  const next = program.commands.find((command) => command.name() === words[0]);
  return next ? commandOf(next, words.slice(1)) : [program, words];
}

/** `kv help COMMAND` is `kv COMMAND --help`, and so it is in a group of commands. */
function helpAsked(argv: readonly string[], program: Command): readonly string[] {
  const [, rest] = commandOf(program, argv),
    path = [...argv.slice(0, argv.length - rest.length), ...rest.slice(1)];
  if (rest[0] !== 'help' || rest.length === 1 || rest[1].startsWith('-')) return argv;
  return commandOf(program, path)[1].length === 0 ? [...path, '--help'] : path;
}

/** Where a command is unknown, the sentence lists those that there are. */
function knownCommands(error: unknown, { commands }: Command): unknown {
  if (!(error instanceof CommanderError) || error.code !== 'commander.unknownCommand') return error;
  const names = commands.map((command) => command.name()).join(', ');
  return new CommanderError(error.exitCode, error.code, `${error.message}; the commands are ${names}`);
}

function failed(cause: unknown, { signal, debug, unredacted }: Terminal, stderr: Terminal['stderr']): number {
  const error = outOfMemory(cause);
  if (signal.aborted) return EXIT.interrupted;
  if (error instanceof CommanderError && (error.exitCode === 0 || error.code === 'commander.help')) return EXIT.ok;
  if (debug) stderr.write(`${error instanceof Error ? error.stack : String(error)}\n`);
  const refused = systemSentence(error),
    expected = KvError.is(error) || error instanceof CommanderError || refused !== undefined,
    told = KvError.is(error) ? error : (refused ?? error);
  if (!debug)
    stderr.write(
      `${oneSentence(told, unredacted)}${expected ? '' : ' (this is a fault of kv: KV_DEBUG=1 shows where)'}\n`,
    );
  return expected ? EXIT.input : EXIT.fault;
}
