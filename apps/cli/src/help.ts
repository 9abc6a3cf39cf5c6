import { Help } from 'commander';
import type { Command } from 'commander';
import { wrap } from './columns.ts';

/** An example in a command's help: a shell line, and what it does. */
export type HelpExample = readonly [line: string, says: string];

/** Adds examples after the options of `--help`. */
export const withExamples = (command: Command, ...examples: readonly HelpExample[]): Command =>
  command.addHelpText(
    'after',
    `\nExamples:\n${examples.map(([line, says]) => `  $ ${line}\n      ${says}`).join('\n')}`,
  );

/**
 * Breaks a shell line into lines of at most `most` characters that are still one command; keeps quoted text together,
 * and options with their values.
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

/** Minimum width of a text column to the right of its terms; with less room the text goes below them. */
const COLUMN = 24;
/** `- ` before an item, or a term followed by a gap, as in lists of options and fields. */
const LEAD = /^ *(?:- |\S+(?: \S+)* {2,}(?=\S))/;

/**
 * Wraps a line at `most` characters: text after a term or `- ` continues in its own column, other text with the line's
 * indentation.
 */
export function fittedLine(line: string, most: number): string {
  if (line.length <= most) return line;
  const indent = /^ */.exec(line)?.[0] ?? '',
    lead = LEAD.exec(line)?.[0] ?? indent,
    wrapAt = (text: string, column: string): readonly string[] =>
      wrap(text, most - column.length).map((part) => column + part);
  if (lead.length <= indent.length + 2 || most - lead.length >= COLUMN)
    return lead + wrapAt(line.slice(lead.length), ' '.repeat(lead.length)).join('\n').trimStart();
  return [...wrapAt(lead.trim(), indent), ...wrapAt(line.slice(lead.length), `${indent}    `)].join('\n');
}

/** Wraps help at `most` characters. */
export const fittedHelp = (help: string, most: number): string =>
  help
    .split('\n')
    .map((line) => (line.startsWith('  $ ') ? shellLine(line, most) : fittedLine(line, most)))
    .join('\n');

/** Layout of every command's help; marks required options. */
export const HELP: Partial<Help> = {
  minWidthToWrap: 20,
  formatItem: (term, width, text, { helpWidth = 80 }) =>
    fittedLine(text === '' ? `  ${term}` : `  ${term.padEnd(width)}  ${text}`, helpWidth),
  optionDescription(option) {
    const text = Help.prototype.optionDescription.call(this, option);
    return option.mandatory ? `${text} (required)` : text;
  },
};

/** Explains the exit codes, for the help of all commands. */
export const EXIT_HELP = `
Exit codes:
  0    done
  1    a fault of kv itself (KV_DEBUG=1 shows where)
  2    a bad input, told in one sentence on stderr
  130  interrupted by Ctrl-C

Answers and tables go to stdout, progress and the engine to stderr; --quiet leaves only errors there.
NO_COLOR=1 prints without colours. 'kv COMMAND --help' has examples of each.`;
