import { KvError } from '@kv/core';
import type { AnswerForm } from '../answer-form.ts';
import { formText } from '../form-text.ts';
import { instance } from './library.ts';
import type { Instance } from './types.ts';
import { Matcher } from './matcher.ts';
import { readVocabulary } from './vocabulary.ts';
import type { ReadVocabulary, VocabularyModel } from './vocabulary.ts';

type Handle = { readonly handle: object; dispose(): void };

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
    return new Matcher(this.#xgrammar, this.#compiled, this.#vocabulary);
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
      throw new KvError(
        'grammar',
        `cannot be compiled: ${xgrammar.said() || 'the structure is not one that xgrammar takes'}`,
      );
    }
    if (xgrammar.memory.buffer.byteLength > mostBytes) this.#restart();
    const grammar = new CompiledGrammar(xgrammar, compiled, vocabulary),
      start = grammar.begin();
    try {
      if (!start.complete) return grammar;
      throw new KvError(
        'grammar',
        "nothing but an end may come: the model's vocabulary cannot write what was asked for",
      );
    } finally {
      start.destroy();
    }
  }

  /** Begins a new memory; grammars that there are keep theirs. */
  #restart(): void {
    this.#xgrammar = undefined;
    this.#vocabularies = new Map();
  }

  #vocabulary(
    xgrammar: Instance,
    key: string,
    marks: readonly string[],
    ends: readonly string[],
  ): Promise<ReadVocabulary> {
    const read = this.#vocabularies.get(key) ?? readVocabulary(xgrammar, this.#model, marks, ends);
    this.#vocabularies.delete(key);
    this.#vocabularies.set(key, read);
    for (const oldest of this.#vocabularies.keys())
      if (this.#vocabularies.size > mostVocabularies) this.#vocabularies.delete(oldest);
    return read;
  }
}
