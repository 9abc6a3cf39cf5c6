import { KvError } from '@kv/core';
import { show, type JsonFields } from '../read/fields.ts';
import { asItIs, type NormalizerStep } from './aligned.ts';
import type { WordSplitting } from './bpe.ts';
import { prepend, replaceAll } from './normalizer.ts';
import { literal, parts } from './parts.ts';
import { byteNames, SPACE } from './token-bytes.ts';
import { inTurn, splitter, type WordCutter } from './word-cutter.ts';

/** GPT-2's word expression, which `ByteLevel` cuts a text by. */
export const GPT2_WORDS = "'s|'t|'re|'ve|'m|'ll|'d| ?\\p{L}+| ?\\p{N}+| ?[^\\s\\p{L}\\p{N}]+|\\s+(?!\\S)|\\s+";

/**
 * A pre-tokenizer in two halves: what it adds to or changes in the text, which offsets must track, and how
 * it cuts the rest.
 */
export interface PreTokenizer extends WordSplitting {
  readonly prepare: NormalizerStep;
}

/**
 * Reads the `pre_tokenizer` of a tokenizer.json; every part of it becomes an expression.
 * @throws KvError naming a pre-tokenizer that is unknown, or whose expression cannot be matched
 */
export function preTokenizer(json: unknown, where: string): PreTokenizer {
  let prepare: NormalizerStep = asItIs;
  const cuts: WordCutter[] = [];
  let byteLevel = false;
  const cut = (regex: string): void => void cuts.push(splitter(splitAt(regex), where));
  parts(json, 'pretokenizers', where).forEach((part, at) => {
    // A part that follows `ByteLevel` cuts text of its byte alphabet.
    if (byteLevel) cuts.push((text) => [byteNames(text)]);
    byteLevel = false;
    const unknown = (): KvError =>
      new KvError(
        where,
        `expected a pre-tokenizer of Split (isolated), Digits, ByteLevel or Metaspace, got ${show(part)}`,
      );
    if (part.type === 'Split') {
      if (!splits(part)) throw unknown();
      if (part.behavior === 'MergedWithPrevious') cuts.push(afterSpaces);
      else cuts.push(splitter(part.behavior === 'Removed' ? part : { ...part, invert: false }, where));
    } else if (part.type === 'Digits') cut(part.individual_digits === true ? '\\p{N}' : '\\p{N}+');
    else if (part.type === 'ByteLevel') {
      if (part.add_prefix_space === true && at > 0) throw unknown();
      if (part.add_prefix_space === true)
        prepare = (text, work) => (text.text.startsWith(' ') ? asItIs : prepend(' '))(text, work);
      if (part.use_regex !== false) cut(GPT2_WORDS);
      byteLevel = true;
    } else if (part.type === 'Metaspace' && at === 0 && (part.replacement ?? SPACE) === SPACE) {
      prepare = metaspace(part);
      if (part.split !== false) cut(`${SPACE}[^${SPACE}]*|[^${SPACE}]+`);
    } else throw unknown();
  });
  return { prepare, cut: inTurn(cuts), byteLevel };
}

/** Returns a pre-tokenizer that cuts at every match and keeps what lies between. */
export function splitAt(regex: string): JsonFields {
  return { type: 'Split', pattern: { Regex: regex }, behavior: 'Isolated', invert: false };
}

function splits(part: JsonFields): boolean {
  if (literal(part) === undefined && typeof (part.pattern as JsonFields | null | undefined)?.Regex !== 'string')
    return false;
  return (
    part.behavior === 'Isolated' ||
    (part.behavior === 'Removed' && part.invert === true) ||
    (part.behavior === 'MergedWithPrevious' && literal(part) === ' ' && part.invert !== true)
  );
}

/** Cuts after every space. Gemma's texts have none left then: a normalizer has marked them. */
const afterSpaces: WordCutter = (text) => (text === '' ? [] : text.split(/(?<= )/));

function metaspace(part: JsonFields): NormalizerStep {
  const scheme = part.add_prefix_space === false ? 'never' : (part.prepend_scheme ?? 'always');
  return function* (text, work) {
    const spaced = yield* replaceAll(' ', SPACE)(text, work);
    const wanted = scheme === 'always' || (scheme === 'first' && spaced.start[0] === 0);
    return yield* (wanted && !spaced.text.startsWith(SPACE) ? prepend(SPACE) : asItIs)(spaced, work);
  };
}
