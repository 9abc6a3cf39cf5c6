import type { Fields } from '../checkpoint/fields.ts';
import { GPT2_WORDS, split } from './pre-tokenizer.ts';

/**
 * How a GGUF file's `tokenizer.ggml.pre` cuts text, as pre-tokenizers of a tokenizer.json, and what else goes with the
 * name in llama.cpp.
 */
export interface Words {
  readonly cuts: readonly Fields[];
  /** A word that is in the vocabulary is a token, whatever the merges make of it. */
  readonly ignoreMerges?: boolean;
  /** Whether a text starts with the beginning token unless the file says otherwise. */
  readonly addBos?: boolean;
  readonly normalizer?: Fields;
}

const CONTRACTIONS = "(?:'[sS]|'[tT]|'[rR][eE]|'[vV][eE]|'[mM]|'[lL][lL]|'[dD])";
const REST = ' ?[^\\s\\p{L}\\p{N}]+[\\r\\n]*|\\s*[\\r\\n]+|\\s+(?!\\S)|\\s+';
const cl100k = (digits: string): string => `${CONTRACTIONS}|[^\\r\\n\\p{L}\\p{N}]?\\p{L}+|${digits}|${REST}`;
/** Words that change from small to capital letters (Tekken and o200k); `suffix` may follow. */
const cased = (suffix: string, digits: string): string => {
  const [upper, lower] = ['[\\p{Lu}\\p{Lt}\\p{Lm}\\p{Lo}\\p{M}]', '[\\p{Ll}\\p{Lm}\\p{Lo}\\p{M}]'];
  const rest = REST.replace('[\\r\\n]*', '[\\r\\n/]*');
  return `[^\\r\\n\\p{L}\\p{N}]?${upper}*${lower}+${suffix}|[^\\r\\n\\p{L}\\p{N}]?${upper}+${lower}*${suffix}|${digits}|${rest}`;
};

const cut = (...regexes: string[]): Words => ({ cuts: regexes.map(split) });
const gpt2 = cut(GPT2_WORDS);
const digits = cut('\\p{N}', GPT2_WORDS);
const llama3 = cut(cl100k('\\p{N}{1,3}'));
const llama3Whole: Words = { ...llama3, ignoreMerges: true, addBos: true };
const qwen2 = cut(cl100k('\\p{N}'));
const o200k = cut(cased(`${CONTRACTIONS}?`, '\\p{N}{1,3}'));

/** Names as in llama.cpp's `llama-vocab.cpp`; its expressions, or those of the tokenizer.json that it adapts. */
export const WORDS: ReadonlyMap<string, Words> = new Map<string, Words>([
  ['default', cut('[\\p{P}\\$\\+<=>\\^~\\|]+', GPT2_WORDS, '\\p{N}+', '[0-9][0-9][0-9]')],
  ['gpt-2', gpt2],
  ['phi-2', gpt2],
  ['mpt', gpt2],
  ['olmo', gpt2],
  ['llama3', llama3Whole],
  ['llama-v3', llama3Whole],
  ['llama-bpe', llama3Whole],
  ['dbrx', llama3],
  ['smaug-bpe', llama3],
  // Qwen's own tokenizer.json composes text; llama.cpp does not.
  ['qwen2', { ...qwen2, normalizer: { type: 'NFC' } }],
  ['deepseek-r1-qwen', qwen2],
  ['stablelm2', qwen2],
  ['smollm', digits],
  ['starcoder', digits],
  ['refact', digits],
  ['command-r', digits],
  ['codeshell', digits],
  ['falcon', cut('[\\p{P}\\$\\+<=>\\^~\\|`]+', GPT2_WORDS, '[0-9][0-9][0-9]')],
  ['tekken', { ...cut(cased('', '\\p{N}')), ignoreMerges: true, addBos: true }],
  ['gpt-4o', o200k],
  ['llama4', o200k],
]);
