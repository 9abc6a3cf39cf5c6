export type { AnswerForm } from './answer-form.ts';
export { grammarsOf } from './grammars.ts';
export type { Grammars, VocabularyModel } from './grammars.ts';
export type { CompiledGrammar } from './xgrammar/compiler.ts';
export type { Matcher } from './xgrammar/matcher.ts';
