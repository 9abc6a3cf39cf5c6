import { KvError } from '@kv/core';
import type { AnswerForm } from '../answer-form.ts';
import { formText } from '../form-text.ts';
import type { VocabularyModel } from '../grammars.ts';
import { instance } from './library.ts';
import type { Instance } from './library.ts';
import { Matcher } from './matcher.ts';

type Handle = { readonly handle: object; dispose(): void };
type Compiling = Awaited<ReturnType<Instance['GrammarCompiler']['createGrammarCompiler']>>;

/** A vocabulary as xgrammar has read it, with some special tokens as text. */
interface ReadVocabulary {
  readonly compiler: Compiling;
  readonly size: number;
  readonly stops: readonly number[];
}

/** Bytes of xgrammar's memory beyond which a new one is begun, since WebAssembly memory is never given back. */
const mostBytes = 192 * 2 ** 20;
/** Most sets of special tokens for which a vocabulary is kept. */
const mostVocabularies = 4;

/** A compiled form, of which answers begin constraints. */
export class CompiledGrammar {
  readonly #xgrammar: Instance;
  readonly #compiled: Handle;
  readonly #vocabulary: ReadVocabulary;

  constructor(xgrammar: Instance, compiled: Handle, vocabulary: ReadVocabulary) {
    [this.#xgrammar, this.#compiled, this.#vocabulary] = [xgrammar, compiled, vocabulary];
    unused.register(this, compiled);
  }

  /** Begins the constraint of one answer. */
  begin(): Matcher {
    const { size, stops } = this.#vocabulary;
    return new Matcher(this.#xgrammar, this.#compiled, size, stops);
  }
}
const unused = new FinalizationRegistry((compiled: Handle) => compiled.dispose());

/** Compiles forms for one vocabulary. */
export class Compiler {
  readonly #model: VocabularyModel;
  #xgrammar: Promise<Instance> | undefined;
  #vocabularies = new Map<string, Promise<ReadVocabulary>>();

  constructor(model: VocabularyModel) {
    this.#model = model;
  }

  /** @throws KvError for a form that cannot be followed */
  async compile(form: AnswerForm): Promise<CompiledGrammar> {
    const { is, text } = formText(form),
      { marks = [], ends = [] } = form.kind === 'structure' ? form : {},
      xgrammar = await (this.#xgrammar ??= instance()),
      key = JSON.stringify([marks, ends]),
      vocabulary = await this.#vocabulary(xgrammar, key, marks, ends);
    let compiled: Handle;
    try {
      compiled =
        is === 'ebnf'
          ? await vocabulary.compiler.compileGrammar(text)
          : await vocabulary.compiler.compileStructuralTag(text);
    } catch {
      this.#restart(); // its stack is where it failed
      throw new KvError('grammar', `cannot be compiled: ${xgrammar.said() || 'the structure is not one that xgrammar takes'}`);
    }
    if (xgrammar.memory.buffer.byteLength > mostBytes) this.#restart();
    const grammar = new CompiledGrammar(xgrammar, compiled, vocabulary),
      start = grammar.begin();
    try {
      if (!start.complete) return grammar;
      throw new KvError('grammar', "nothing but an end may come: the model's vocabulary cannot write what was asked for");
    } finally {
      start.destroy();
    }
  }

  /** Begins a new memory; grammars that there are keep theirs. */
  #restart(): void {
    this.#xgrammar = undefined;
    this.#vocabularies = new Map();
  }

  #vocabulary(xgrammar: Instance, key: string, marks: readonly string[], ends: readonly string[]): Promise<ReadVocabulary> {
    const read = this.#vocabularies.get(key) ?? this.#read(xgrammar, marks, ends);
    this.#vocabularies.delete(key);
    this.#vocabularies.set(key, read);
    for (const oldest of this.#vocabularies.keys())
      if (this.#vocabularies.size > mostVocabularies) this.#vocabularies.delete(oldest);
    return read;
  }

  /**
   * Reads the vocabulary as bytes, which every tokenizer gives and every kind of token has. A token without bytes may not
   * come: special tokens, and ids beyond the tokenizer's.
   */
  async #read(xgrammar: Instance, marks: readonly string[], ends: readonly string[]): Promise<ReadVocabulary> {
    const { tokenizer, config } = this.#model,
      idOf = (text: string): number[] => {
        const special = tokenizer.specials.get(text),
          ids = special === undefined ? tokenizer.encode(text, { special: false }).ids : [special];
        return ids.length === 1 ? [...ids] : [];
      },
      ended = [...config.eosIds, ...ends.flatMap(idOf)].filter((id) => id < config.vocab),
      // without an end token, an id that no token has stands for the end
      stops = ended.length > 0 ? ended : [config.vocab],
      size = Math.max(config.vocab, ...stops.map((id) => id + 1)),
      marked = new Set(marks.flatMap(idOf)),
      silent = new Set([...tokenizer.specials.values()].filter((id) => !marked.has(id)));
    for (const id of stops) silent.add(id);
    const bytes = Array.from({ length: size }, (_, id) =>
      silent.has(id) || id >= tokenizer.size ? new Uint8Array(0) : bytesOf(tokenizer, id),
    );
    // as text, bytes that are half a character could not be given
    const info = await xgrammar.TokenizerInfo.createTokenizerInfo(bytes as unknown as string[], 'raw', false, size, [...stops]),
      compiler = await xgrammar.GrammarCompiler.createGrammarCompiler(info, false);
    return { compiler, size, stops };
  }
}

/** Returns a token's bytes, none for an id that the tokenizer leaves out. */
function bytesOf(tokenizer: VocabularyModel['tokenizer'], id: number): Uint8Array {
  try {
    return tokenizer.bytesOf(id);
  } catch {
    return new Uint8Array(0);
  }
}
