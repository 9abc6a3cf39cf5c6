import type { Command } from 'commander';
import { reflowed } from './columns.ts';

/** What a command's help ends with: a line of a shell, and what it does. */
export type Example = readonly [line: string, says: string];

/** Examples behind the options of `--help`. */
export const withExamples = (command: Command, ...examples: readonly Example[]): Command =>
  command.addHelpText(
    'after',
    `\nExamples:\n${examples.map(([line, says]) => `  $ ${line}\n      ${says}`).join('\n')}`,
  );

/**
 * A line of a shell in lines of at most `most` characters, which is still one command: quoted text stays together, and
 * options with their values.
 */
function shellLine(line: string, most: number): string {
  const lines = [''];
  for (const [word] of line.matchAll(/(?:--[a-z-]+ (?=[^-\s]))?(?:[^\s'"]|'[^']*'|"[^"]*")+/g)) {
    const last = lines[lines.length - 1];
    if (last === '') lines[0] = `  ${word}`;
    else if (last.length + 1 + word.length <= most - ' \\'.length) lines[lines.length - 1] = `${last} ${word}`;
    else lines.push(`      ${word}`);
  }
  return lines.join(' \\\n');
}

/** Help in lines of at most `most` characters. */
export const fittedHelp = (help: string, most: number): string =>
  help
    .split('\n')
    .map((line) => (line.startsWith('  $ ') ? shellLine(line, most) : reflowed(line, most)))
    .join('\n');

/** How commands end, for the help of all. */
export const EXIT_HELP = `
Exit codes:
  0    done
  1    a fault of kv itself (KV_DEBUG=1 shows where)
  2    a bad input, told in one sentence on stderr
  130  interrupted by Ctrl-C

Answers and tables go to stdout, progress and the engine to stderr; --quiet leaves only errors there.
NO_COLOR=1 prints without colours. 'kv COMMAND --help' has examples of each.`;
