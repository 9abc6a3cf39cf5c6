import { builtin } from '@kv/checkpoints';
import { factory } from './factory.ts';
import type { Instance } from './types.ts';

/** Makes an instance. What it would write to the console is kept for errors. */
export async function instance(): Promise<Instance> {
  let said = '';
  const note = (...words: readonly unknown[]): void => {
    const line = /(?:\[FATAL\] [^ ]+: )?(.*)/.exec(words.join(' '))?.[1] ?? '';
    if (!line.startsWith('Aborted')) said = line;
  };
  const make = await factory(),
    made = make((name) => builtin(`node:${name}` as 'node:fs'), '/xgrammar.cjs', {
      log: note,
      warn: note,
      error: note,
    });
  await made.Grammar.fromEBNF('root ::= "a"').then((grammar) => grammar.dispose()); // starts the module
  return Object.assign(made, { said: () => said });
}
