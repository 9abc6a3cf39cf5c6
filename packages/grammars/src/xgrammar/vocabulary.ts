import type { ModelConfig, Tokenizer } from '@kv/checkpoints';
import type { CompileJob } from './types.ts';
import { ByteRules, isPart } from './utf8.ts';

/** What grammars are made for: a model, by its vocabulary. */
export interface VocabularyModel {
  readonly tokenizer: Tokenizer;
  readonly config: Pick<ModelConfig, 'vocab' | 'eosIds'>;
}

/** A vocabulary, with some special tokens as text. */
export interface ReadVocabulary {
  readonly size: number;
  readonly stops: readonly number[];
  readonly rules: ByteRules;
}

/**
 * Reads the vocabulary as bytes, which every tokenizer gives and every kind of token has. A token without bytes may not
 * come: special tokens, and ids beyond the tokenizer's.
 */
export function readVocabulary(
  { tokenizer, config }: VocabularyModel,
  marks: readonly string[],
  ends: readonly string[],
): ReadVocabulary & { readonly bytes: NonNullable<CompileJob['vocabulary']> } {
  const idOf = (text: string): number[] => {
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
  const tokens = Array.from({ length: size }, (_, id) =>
      silent.has(id) || id >= tokenizer.size ? new Uint8Array(0) : bytesOf(tokenizer, id),
    ),
    tokenEnds = new Uint32Array(size);
  let end = 0;
  for (const [id, bytes] of tokens.entries()) tokenEnds[id] = end += bytes.length;
  const bytes = new Uint8Array(end);
  for (const [id, token] of tokens.entries()) bytes.set(token, (tokenEnds[id] as number) - token.length);
  return { size, stops, rules: new ByteRules(tokens), bytes: { bytes, ends: tokenEnds, stops } };
}

/** Returns a token's bytes, none for an id that the tokenizer leaves out or whose bytes are in no text. */
function bytesOf(tokenizer: VocabularyModel['tokenizer'], id: number): Uint8Array {
  const none = new Uint8Array(0);
  try {
    const bytes = tokenizer.bytesOf(id);
    return isPart(bytes) ? bytes : none;
  } catch {
    return none;
  }
}
