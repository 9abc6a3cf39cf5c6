import type * as XGrammar from '@mlc-ai/web-xgrammar';

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
export interface Instance
  extends Pick<typeof XGrammar, 'TokenizerInfo' | 'GrammarCompiler' | 'GrammarMatcher' | 'Grammar'> {
  readonly binding: Binding;
  readonly memory: WebAssembly.Memory;
  /** What it last complained of. */
  readonly said: () => string;
}

/** Makes instances of xgrammar. Its parts of Node are asked for by `require`; in a browser it asks for none. */
export type XGrammarFactory = (
  require: (name: string) => unknown,
  __filename: string,
  console: Pick<Console, 'log' | 'warn' | 'error'>,
) => Omit<Instance, 'said'>;
