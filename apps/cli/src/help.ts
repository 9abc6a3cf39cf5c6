import type { Command } from 'commander';

/** What a command's help ends with: a line of a shell, and what it does. */
export type Example = readonly [line: string, says: string];

/** Examples behind the options of `--help`. */
export const withExamples = (command: Command, ...examples: readonly Example[]): Command =>
  command.addHelpText(
    'after',
    `\nExamples:\n${examples.map(([line, says]) => `  $ ${line}\n      ${says}`).join('\n')}`,
  );

/** How commands end, for the help of all. */
export const EXIT_HELP = `
Exit codes:
  0    done
  1    a fault of kv itself (KV_DEBUG=1 shows where)
  2    a bad input, told in one sentence on stderr
  130  interrupted by Ctrl-C

Answers and tables go to stdout, progress and the engine to stderr; --quiet leaves only errors there.
NO_COLOR=1 prints without colours. 'kv COMMAND --help' has examples of each.`;
