import { builtin } from '@kv/checkpoints';
import type * as XGrammar from '@mlc-ai/web-xgrammar';
import { factory } from './factory.ts';

/** A part of xgrammar's WebAssembly module that its classes hide. */
interface Binding {
  /** The class of matchers. */
  readonly GrammarMatcher: unknown;
  /** Returns a view of the numbers, valid until the module's memory grows. */
  vecIntToView(vector: Vector): Int32Array;
}
export interface Vector {
  delete(): void;
}

/** An instance of xgrammar: a WebAssembly memory of its own. */
export interface Instance extends Pick<typeof XGrammar, 'TokenizerInfo' | 'GrammarCompiler' | 'GrammarMatcher' | 'Grammar'> {
  readonly binding: Binding;
  readonly memory: WebAssembly.Memory;
  /** What it last complained of. */
  readonly said: () => string;
}

/** Makes instances of xgrammar. Its parts of Node are asked for by `require`; in a browser it asks for none. */
export type Factory = (
  require: (name: string) => unknown,
  __filename: string,
  console: Pick<Console, 'log' | 'warn' | 'error'>,
) => Omit<Instance, 'said'>;

/** Makes an instance. What it would write to the console is kept for errors. */
export async function instance(): Promise<Instance> {
  let said = '';
  const note = (...words: readonly unknown[]): void => {
    const line = /(?:\[FATAL\] [^ ]+: )?(.*)/.exec(words.join(' '))?.[1] ?? '';
    if (!line.startsWith('Aborted')) said = line;
  };
  const make = await factory(),
    made = make((name) => builtin(`node:${name}` as 'node:fs'), '/xgrammar.cjs', { log: note, warn: note, error: note });
  await made.Grammar.fromEBNF('root ::= "a"').then((grammar) => grammar.dispose()); // starts the module
  return Object.assign(made, { said: () => said });
}
