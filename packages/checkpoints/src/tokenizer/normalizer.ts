import { KvError } from '@kv/core';
import { show, type JsonFields } from '../read/fields.ts';
import { edit, type TextEdit, type NormalizerStep } from './aligned.ts';
import { literal, parts } from './parts.ts';

/**
 * Returns the `normalizer` of a tokenizer.json as a function that tracks where each unit of its result comes from.
 * @throws KvError naming an unknown normalizer
 */
export function normalizer(json: unknown, where: string): NormalizerStep {
  const steps = parts(json, 'normalizers', where).map((part) => step(part, where));
  return function* (text, work) {
    let aligned = text;
    for (const change of steps) aligned = yield* change(aligned, work);
    return aligned;
  };
}

/** Returns a step that replaces every `from` by `to`. */
export function replaceAll(from: string, to: string): NormalizerStep {
  return function* (source, work) {
    const { text } = source;
    // a replacement of the same length keeps its position
    if (from.length === 1 && to.length === 1) return { ...source, text: text.replaceAll(from, () => to) };
    const edits: TextEdit[] = [];
    for (let at = text.indexOf(from); at >= 0; at = text.indexOf(from, at + from.length)) {
      edits.push({ from: at, to: at + from.length, text: to });
      work.spend(4);
      if (work.due) yield;
    }
    return yield* edit(source, edits, work);
  };
}

/** Returns a step that puts `prefix` before a text that is not empty. */
export function prepend(prefix: string): NormalizerStep {
  return (source, work) => edit(source, source.text === '' ? [] : [{ from: 0, to: 0, text: prefix }], work);
}

const FORMS = ['NFC', 'NFD', 'NFKC', 'NFKD'] as const;

function step(part: JsonFields, where: string): NormalizerStep {
  const form = FORMS.find((name) => name === part.type);
  if (form !== undefined) return unicode(form);
  const from = literal(part);
  if (part.type === 'Replace' && from !== undefined && typeof part.content === 'string')
    return replaceAll(from, part.content);
  if (part.type === 'Prepend' && typeof part.prepend === 'string') return prepend(part.prepend);
  if (part.type === 'Lowercase') return matches(/\P{Lowercase}/gu, (char) => char.toLowerCase());
  if (part.type === 'StripAccents') return matches(/\p{M}+/gu, () => '');
  if (part.type === 'Strip') return strip(part.strip_left === true, part.strip_right === true);
  throw new KvError(
    where,
    `expected a normalizer of Replace (of a string), Prepend, NFC, NFD, NFKC, NFKD, Lowercase, Strip or StripAccents, got ${show(part)}`,
  );
}

function matches(pattern: RegExp, replace: (found: string) => string): NormalizerStep {
  return function* (source, work) {
    const edits: TextEdit[] = [];
    for (const { 0: found, index } of source.text.matchAll(pattern)) {
      const to = replace(found);
      if (to !== found) edits.push({ from: index, to: index + found.length, text: to });
      work.spend(8);
      if (work.due) yield;
    }
    return yield* edit(source, edits, work);
  };
}

function strip(left: boolean, right: boolean): NormalizerStep {
  return (source, work) => {
    const { text } = source;
    const from = left ? spaceAfter(text, 0) : 0;
    const to = right ? spaceBefore(text, text.length, from) : text.length;
    const edits = [
      { from: 0, to: from, text: '' },
      { from: to, to: text.length, text: '' },
    ].filter((cut) => cut.to > cut.from);
    return edit(source, edits, work);
  };
}

/** Returns the end of the white space that begins at `at`; all white space is in the basic plane. */
export function spaceAfter(text: string, at: number): number {
  let end = at;
  while (/^\p{White_Space}$/u.test(text.charAt(end))) end++;
  return end;
}

/** Returns the beginning of the white space that ends at `at`, not before `least`. */
export function spaceBefore(text: string, at: number, least: number): number {
  let start = at;
  while (start > least && /^\p{White_Space}$/u.test(text.charAt(start - 1))) start--;
  return start;
}

/**
 * Returns a Unicode normal form as a step that works run by run: a run is a character and all that follow it as long as
 * they are marks or change when normalised together with what precedes them (jamo, half-width sound marks).
 */
function unicode(form: (typeof FORMS)[number]): NormalizerStep {
  return function* (source, work) {
    const { text } = source;
    if (text.normalize(form) === text) return source;
    const edits: TextEdit[] = [];
    let [run, from] = ['', 0];
    const close = (): void => {
      const to = run.normalize(form);
      if (to !== run) edits.push({ from, to: from + run.length, text: to });
      from += run.length;
      run = '';
    };
    for (const char of text) {
      const apart =
        char < '\u0300' ||
        (!/^\p{M}/u.test(char) && (run + char).normalize(form) === run.normalize(form) + char.normalize(form));
      if (apart && run !== '') close();
      run += char;
      work.spend(16);
      if (work.due) yield;
    }
    close();
    return yield* edit(source, edits, work);
  };
}
