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

/** What compiles grammars for one vocabulary. */
export interface GrammarCompiler {
  compileGrammar(text: string): Promise<object>;
  compileStructuralTag(tag: string): Promise<object>;
}
/** The part of xgrammar's package that is used. Its own types are not installed where this package is. */
export interface XGrammar<Info = never> {
  readonly Grammar: { fromEBNF(text: string): Promise<{ dispose(): void }> };
  readonly TokenizerInfo: {
    createTokenizerInfo(tokens: string[], kind: string, spaces: boolean, size: number, stops: number[]): Promise<Info>;
  };
  readonly GrammarCompiler: { createGrammarCompiler(info: Info, caches: boolean): Promise<GrammarCompiler> };
}

/** An instance of xgrammar: a WebAssembly memory of its own. */
export interface Instance extends XGrammar {
  readonly binding: Binding;
  readonly memory: WebAssembly.Memory;
  /** Is called when the memory has grown. */
  readonly grown: () => void;
  /** Its C++ types by their addresses, which make handles of pointers. */
  readonly types: Readonly<Record<string, { readonly name: string; fromWireType(pointer: number): object }>>;
  /** What it last complained of. */
  readonly said: () => string;
}

/** Makes instances of xgrammar. Its parts of Node are asked for by `require`; in a browser it asks for none. */
export type XGrammarFactory = (
  require: (name: string) => unknown,
  __filename: string,
  console: Pick<Console, 'log' | 'warn' | 'error'>,
) => Omit<Instance, 'said'>;

/** A grammar to compile for a vocabulary. */
export interface CompileJob {
  /** A grammar in EBNF, or structural tags in JSON. */
  readonly is: 'ebnf' | 'structure';
  readonly text: string;
  /** What the vocabulary is known by. */
  readonly key: string;
  /** The vocabulary, the first time: its tokens one after the other, where each ends, and the ids that end an answer. */
  readonly vocabulary?:
    | { readonly bytes: Uint8Array; readonly ends: Uint32Array; readonly stops: readonly number[] }
    | undefined;
}
/** A compiled grammar of xgrammar. */
export interface GrammarHandle {
  readonly handle: { readonly $$: { readonly ptr: number } };
  dispose(): void;
}
/** An instance that compiles. */
export interface Workshop {
  /** The address of its first object: that of all instances, of which one can then go on from a copy of another's memory. */
  readonly begins: number;
  readonly xgrammar: Instance;
  /** Returns the address of the grammar in the instance's memory. @throws where xgrammar fails, which has `said` why */
  compile(job: CompileJob): Promise<number>;
  dispose(pointer: number): void;
}
