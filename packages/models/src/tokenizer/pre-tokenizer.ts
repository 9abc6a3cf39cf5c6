import { KvError } from '@kv/core';
import { show, type Fields } from '../checkpoint/fields.ts';
import { edit, type Aligned } from './aligned.ts';
import { prepend, replaceAll } from './normalizer.ts';
import { literal, parts } from './parts.ts';

/** What stands for a space in SentencePiece vocabularies. */
export const SPACE = '\u2581';

/** GPT-2's words, which `ByteLevel` cuts a text into. */
export const GPT2_WORDS = "'s|'t|'re|'ve|'m|'ll|'d| ?\\p{L}+| ?\\p{N}+| ?[^\\s\\p{L}\\p{N}]+|\\s+(?!\\S)|\\s+";

/**
 * A pre-tokenizer in two halves: what it adds to or changes in the text, which offsets must follow, and how the rest
 * cuts it.
 */
export interface PreTokenizer {
  readonly prepare: (text: Aligned) => Aligned;
  readonly cut: Fields | null;
}

/**
 * The `pre_tokenizer` of a tokenizer.json in terms that the library cuts exactly as the reference does: its own
 * `Digits`, `ByteLevel` and
 * `Metaspace` know fewer digits and other white space, and do not cut at U+2581.
 * @throws KvError naming a pre-tokenizer that is not known here.
 */
export function preTokenizer(json: unknown, where: string): PreTokenizer {
  let prepare: PreTokenizer['prepare'] = (text) => text;
  const cuts: Fields[] = [];
  parts(json, 'pretokenizers', where).forEach((part, at) => {
    const unknown = (): KvError =>
      new KvError(
        where,
        `expected a pre-tokenizer of Split (isolated), Digits, ByteLevel or Metaspace, got ${show(part)}`,
      );
    if (part.type === 'Split') {
      if (!splits(part)) throw unknown();
      // No space is left once a normalizer has made each a U+2581, so this cuts nothing.
      if (literal(part) === ' ' && part.behavior === 'MergedWithPrevious') return;
      cuts.push(part.behavior === 'Removed' ? part : { ...part, invert: false });
    } else if (part.type === 'Digits') cuts.push(split(part.individual_digits === true ? '\\p{N}' : '\\p{N}+'));
    else if (part.type === 'ByteLevel') {
      if (part.add_prefix_space === true && at > 0) throw unknown();
      if (part.add_prefix_space === true)
        prepare = (text) => (text.text.startsWith(' ') ? text : edit(text, prepend(' ')(text.text)));
      if (part.use_regex !== false) cuts.push(split(GPT2_WORDS));
      cuts.push({ type: 'ByteLevel', add_prefix_space: false, use_regex: false });
    } else if (part.type === 'Metaspace' && at === 0 && (part.replacement ?? SPACE) === SPACE) {
      prepare = metaspace(part);
      if (part.split !== false) cuts.push(split(`${SPACE}[^${SPACE}]*|[^${SPACE}]+`));
    } else throw unknown();
  });
  return { prepare, cut: cuts.length === 0 ? null : { type: 'Sequence', pretokenizers: cuts } };
}

/** A pre-tokenizer that cuts at every match and keeps what lies between. */
export function split(regex: string): Fields {
  return { type: 'Split', pattern: { Regex: regex }, behavior: 'Isolated', invert: false };
}

function splits(part: Fields): boolean {
  if (literal(part) === undefined && typeof (part.pattern as Fields | null | undefined)?.Regex !== 'string')
    return false;
  return (
    part.behavior === 'Isolated' ||
    (part.behavior === 'Removed' && part.invert === true) ||
    (part.behavior === 'MergedWithPrevious' && literal(part) === ' ')
  );
}

function metaspace(part: Fields): (text: Aligned) => Aligned {
  const scheme = part.add_prefix_space === false ? 'never' : (part.prepend_scheme ?? 'always');
  return (text) => {
    const spaced = edit(text, replaceAll(' ', SPACE)(text.text));
    const wanted = scheme === 'always' || (scheme === 'first' && spaced.start[0] === 0);
    return wanted && !spaced.text.startsWith(SPACE) ? edit(spaced, prepend(SPACE)(spaced.text)) : spaced;
  };
}
