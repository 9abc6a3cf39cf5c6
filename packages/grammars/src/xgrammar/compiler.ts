import { KvError } from '@kv/core';
import type { AnswerForm } from '../answer-form.ts';
import { formText } from '../form-text.ts';
import { bench, type GrammarBench } from './bench.ts';
import { Matcher } from './matcher.ts';
import { readVocabulary } from './vocabulary.ts';
import type { ReadVocabulary, VocabularyModel } from './vocabulary.ts';

/** Bytes of xgrammar's memory beyond which a new one is begun, since WebAssembly memory is never given back. */
const mostBytes = 192 * 2 ** 20;
/** Most sets of special tokens for which a vocabulary is kept. */
const mostVocabularies = 4;

/** A compiled form, of which answers begin constraints. */
export class CompiledGrammar {
  readonly #bench: GrammarBench;
  readonly #pointer: number;
  readonly #vocabulary: ReadVocabulary;

  constructor(of: GrammarBench, pointer: number, vocabulary: ReadVocabulary) {
    [this.#bench, this.#pointer, this.#vocabulary] = [of, pointer, vocabulary];
    unused.register(this, { of, pointer });
  }

  /** Begins the constraint of one answer. */
  begin(): Matcher {
    return new Matcher(this.#bench.xgrammar, this.#pointer, this.#vocabulary);
  }
}
const unused = new FinalizationRegistry(({ of, pointer }: { readonly of: GrammarBench; readonly pointer: number }) =>
  of.dispose(pointer),
);

/** Compiles forms for one vocabulary, one after the other. */
export class Compiler {
  readonly #model: VocabularyModel;
  #bench: Promise<GrammarBench> | undefined;
  /** Those that the bench has read. */
  readonly #vocabularies = new Map<string, ReadVocabulary>();
  #turn: Promise<unknown> = Promise.resolve();

  constructor(model: VocabularyModel) {
    this.#model = model;
  }

  /** @throws KvError for a form that cannot be followed */
  compile(form: AnswerForm): Promise<CompiledGrammar> {
    const made = this.#turn.then(() => this.#compile(form));
    this.#turn = made.catch(() => {});
    return made;
  }

  async #compile(form: AnswerForm): Promise<CompiledGrammar> {
    const { is, text } = formText(form),
      { marks = [], ends = [] } = form.kind === 'structure' ? form : {},
      key = JSON.stringify([marks, ends]);
    let pointer: number, made: GrammarBench, vocabulary: ReadVocabulary;
    try {
      made = await (this.#bench ??= bench());
      const known = this.#vocabularies.get(key),
        { bytes, ...read } = known ? { ...known, bytes: undefined } : readVocabulary(this.#model, marks, ends);
      vocabulary = read;
      pointer = await made.compile({ is, text, key, vocabulary: bytes });
    } catch (cause) {
      await this.#restart(); // its stack is where it failed
      throw cause;
    }
    this.#vocabularies.delete(key);
    this.#vocabularies.set(key, vocabulary);
    for (const oldest of this.#vocabularies.keys())
      if (this.#vocabularies.size > mostVocabularies) this.#vocabularies.delete(oldest);
    if (made.xgrammar.memory.buffer.byteLength > mostBytes) await this.#restart();
    const grammar = new CompiledGrammar(made, pointer, vocabulary),
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
  async #restart(): Promise<void> {
    const before = this.#bench;
    this.#bench = undefined;
    this.#vocabularies.clear();
    (await before?.catch(() => undefined))?.end();
  }
}
