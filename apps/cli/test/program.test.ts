import { Command } from 'commander';
import { expect, test } from 'vitest';
import { runProgram } from '../src/program.ts';
import type { CommandProgram } from '../src/program.ts';
import { ran } from './terminal.ts';

/** A program whose commands say when they are loaded. */
function traced(): { readonly program: CommandProgram; readonly loaded: string[] } {
  const loaded: string[] = [],
    command = (name: string) => async () => {
      loaded.push(name);
      return (): Command => new Command(name).description(`Does ${name}.`).action(() => undefined);
    };
  const commands = Object.fromEntries(['one', 'two', 'all'].map((name) => [name, command(name)]));
  return { program: { shell: 'x', says: 'X.', examples: [], start: 'Start.\n', commands, overview: ['all'] }, loaded };
}

test.each<[readonly string[], readonly string[], number]>([
  [[], [], 0],
  [['--version'], [], 0],
  [['two'], ['two'], 0],
  [['two', '--help'], ['two'], 0],
  [['help', 'one'], ['one'], 0],
  [['help', 'one', 'more'], ['one'], 0],
  [['all'], ['one', 'two', 'all'], 0],
  [['--help'], ['one', 'two', 'all'], 0],
  [['help'], ['one', 'two', 'all'], 0],
  [['toString'], ['one', 'two', 'all'], 2],
])('%j loads the commands %j', async (argv, wanted, exit) => {
  const { program, loaded } = traced(),
    { code } = await ran((terminal) => runProgram(program, argv, terminal));
  expect([loaded, code]).toEqual([wanted, exit]);
});
