import { sha256 } from '@noble/hashes/sha2.js';
import { bytesToHex } from '@noble/hashes/utils.js';
import { KvError } from '@kv/core';
import type { AnswerForm } from './answer-form.ts';
import { expectForm } from './form-text.ts';
import { checkSize } from './schema/limits.ts';
import { Compiler } from './xgrammar/compiler.ts';
import type { CompiledGrammar } from './xgrammar/compiler.ts';
import type { VocabularyModel } from './xgrammar/vocabulary.ts';

/** Compiles what answers of one model must look like. */
export interface Grammars {
  /**
   * Returns a grammar, of which answers begin constraints. Those of the last 32 forms are kept, by the form's digest.
   * @throws KvError, one sentence, for a form that cannot be followed
   */
  compile(form: AnswerForm): Promise<CompiledGrammar>;
}

/** Most grammars of a model that are kept. */
const most = 32;

const known = new WeakMap<object, Grammars>();

/**
 * Returns the grammars of a model. Its vocabulary is read when the first grammar is asked for.
 * @throws KvError for what is no model
 */
export function grammarsOf(model: VocabularyModel): Grammars {
  if (!Object(model).tokenizer)
    throw new KvError('form', `expected a model, whose vocabulary is read, got ${typeof model}`);
  const before = known.get(model.tokenizer);
  if (before) return before;
  const compiler = new Compiler(model),
    kept = new Map<string, Promise<CompiledGrammar>>();
  const grammars: Grammars = {
    async compile(form) {
      expectForm(form);
      checkSize(form);
      const key = bytesToHex(sha256(new TextEncoder().encode(JSON.stringify(form)))),
        grammar = kept.get(key) ?? compiler.compile(form);
      kept.delete(key); // the last that was asked for is the last to go
      kept.set(key, grammar);
      grammar.catch(() => kept.get(key) === grammar && kept.delete(key));
      for (const oldest of kept.keys()) if (kept.size > most) kept.delete(oldest);
      return grammar;
    },
  };
  known.set(model.tokenizer, grammars);
  return grammars;
}
