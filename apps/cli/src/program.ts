import { KvError } from '@kv/core';
import { outOfMemory } from '@kv/core/engine';
import { Command, CommanderError } from 'commander';
import { EXIT_HELP, fittedHelp, HELP, withExamples } from './help.ts';
import type { HelpExample } from './help.ts';
import { oneSentence } from './one-sentence.ts';
import { systemSentence } from './system-error.ts';
import { lineWidth } from './terminal.ts';
import type { Terminal } from './terminal.ts';
import { VERSION } from './version.ts';

/** Exit codes: success, a fault of kv itself, bad input, interrupted. */
const EXIT = { ok: 0, fault: 1, input: 2, interrupted: 130 } as const;

const SILENT = { write: (): void => {} };

/** A program of commands. */
export interface CommandProgram {
  /** How the user invokes it. */
  readonly shell: string;
  /** Purpose, at the top of its help. */
  readonly says: string;
  readonly examples: readonly HelpExample[];
  /** What is printed where no command is named. @defaultValue the help */
  readonly start?: string;
  /** Loads what creates each command, by its name: only the command that is named is loaded. */
  readonly commands: Readonly<Record<string, () => Promise<CreateCommand>>>;
  /** Names of commands that look at all others. */
  readonly overview?: readonly string[];
}
/** Creates a command, which calls `onStop` if a signal stops it as intended. */
export type CreateCommand = (terminal: Terminal, onStop: () => void) => Command;

/** Runs one command and returns its exit code; an error in the input is one sentence on stderr. */
export async function runProgram(what: CommandProgram, argv: readonly string[], outside: Terminal): Promise<number> {
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
  if (argv.length === 0 && what.start !== undefined) {
    outside.stdout.write(fittedHelp(what.start, lineWidth(outside.stdout)));
    return EXIT.ok;
  }
  const program = await createProgram(what, terminal, {
    named: namedIn(argv, what),
    onFlags: (given) => {
      flags = given;
    },
    onStop: () => {
      stopped = true;
    },
  });
  const asked = helpAsked(withHubFlag(argv), program);
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

/** Returns the commands that arguments need: the one that they name, none for the version, else all. */
function namedIn(argv: readonly string[], { commands, overview = [] }: CommandProgram): readonly string[] | undefined {
  const name = argv[0] === 'help' ? argv[1] : argv[0];
  if (argv.length === 1 && (name === '--version' || name === '-V')) return [];
  return name !== undefined && Object.hasOwn(commands, name) && !overview.includes(name) ? [name] : undefined;
}

interface ProgramOptions {
  /** Names of the commands to create. @defaultValue all */
  readonly named?: readonly string[] | undefined;
  /** Gets the flags of the command that runs. */
  readonly onFlags: (flags: Flags) => void;
  /** Called if a signal stops a command as intended. */
  readonly onStop: () => void;
}

/** Creates the program. */
export async function createProgram(
  { shell, says, examples, commands }: CommandProgram,
  terminal: Terminal,
  { named = Object.keys(commands), onFlags, onStop }: ProgramOptions,
): Promise<Command> {
  const program = withExamples(
    new Command(shell).description(says).version(VERSION).helpCommand('help [command]', 'the help of one command'),
    ...examples,
  )
    .addHelpText('after', EXIT_HELP)
    .hook('preAction', (_, command) => {
      onFlags(command.optsWithGlobals<Flags>()); // of a step's group too
    });
  for (const create of await Promise.all(named.map((name) => commands[name]())))
    program.addCommand(
      create(terminal, onStop)
        .option('-q, --quiet', 'nothing but errors on stderr')
        .option('--unredacted', "reports, logs and errors show the values after keys such as 'password:'"),
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
        // printed by a group of commands if none of them is named; sentences are written below
        writeErr: help,
        outputError: () => {},
        getOutHelpWidth: width,
        getErrHelpWidth: width,
        getOutHasColors: colored,
        getErrHasColors: colored,
      });
  return program;
}

/** Returns the command that the first words name, and the words after its name. */
function commandOf(program: Command, words: readonly string[]): readonly [Command, readonly string[]] {
  const next = program.commands.find((command) => command.name() === words[0]);
  return next ? commandOf(next, words.slice(1)) : [program, words];
}

/** Rewrites `-hf org/name`, as llama.cpp writes a model of the hub, to `--model org/name`. */
export function withHubFlag(argv: readonly string[]): readonly string[] {
  const end = argv.indexOf('--');
  return argv.map((word, i) => (word === '-hf' && (end < 0 || i < end) ? '--model' : word));
}

/** Rewrites `kv help COMMAND` to `kv COMMAND --help`, also in a group of commands. */
function helpAsked(argv: readonly string[], program: Command): readonly string[] {
  const [, rest] = commandOf(program, argv),
    path = [...argv.slice(0, argv.length - rest.length), ...rest.slice(1)];
  if (rest[0] !== 'help' || rest.length === 1 || rest[1].startsWith('-')) return argv;
  const [found, more] = commandOf(program, path);
  // a group refuses a word that names none of its commands
  return more.length === 0 || found.commands.length === 0 ? [...path, '--help'] : path;
}

/** Adds the list of commands to the error of an unknown command. */
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
