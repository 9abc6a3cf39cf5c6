export type { AnswerForm } from './answer-form.ts';
export { grammarsOf } from './grammars.ts';
export type { Grammars } from './grammars.ts';
export type { CompiledGrammar } from './xgrammar/compiler.ts';
export type { VocabularyModel } from './xgrammar/vocabulary.ts';
export type { Matcher } from './xgrammar/matcher.ts';
