import { embeddings, number, text } from '@kv/core';
import type { Embeddings, Option, Tokens } from '@kv/core';
import { detector } from './detector.ts';

const CONCEPTS = 'password, code, key, token, secret, credential, PIN, number, remember';
/** Normalises a comma-separated text, or a list, of words and phrases; undefined if there is none. */
function listed(x: unknown): string | undefined {
  const all: readonly unknown[] = typeof x === 'string' ? x.split(',') : Array.isArray(x) ? x : [];
  const words = all.map((word) => (typeof word === 'string' ? word.trim() : ''));
  return words.length > 0 && words.every((word) => word !== '' && !word.includes(',')) ? words.join(', ') : undefined;
}
const concepts: Option<string | readonly string[]> = text(
  CONCEPTS,
  'words or short phrases with commas between them',
  'What anchors mean, in any language.',
  listed,
);
/** A colon or equals sign that opens a value. */
const SIGN = /(?<![:=])[:=：＝](?![:=/>])/;
/** Tokens after an anchor in which that sign is looked for: "code is:". */
const NEAR = 3;

interface Word {
  readonly rows: readonly Float32Array[];
  readonly square: number;
}
interface Measured {
  row(id: number): Word;
  readonly words: readonly Word[];
  /** Inner product of a token with the k-th token of a word. */
  inner(id: number, word: number, k: number): number;
}
const dot = (a: Float32Array, b: Float32Array): number => {
  let sum = 0;
  for (let c = 0; c < a.length; c++) sum += a[c] * b[c];
  return sum;
};

/** Embeddings of the concepts in one model, alone and after a space, and of every token met. */
function measure(given: Embeddings, said: readonly string[]): Measured {
  const rows = new Map<number, Word>(),
    inners = new Map<number, Float64Array>();
  const row = (id: number): Word => {
    const found =
      rows.get(id) ??
      (() => {
        const x = given.rows([id]);
        return { rows: [x], square: dot(x, x) };
      })();
    rows.set(id, found);
    return found;
  };
  const words = said
    .flatMap((word) => [word, ` ${word}`])
    .map((word): Word => {
      const each = given.encode(word).map(row);
      return { rows: each.map((w) => w.rows[0]), square: each.reduce((s, w) => s + w.square, 0) };
    });
  const starts = words.map((_, w) => words.slice(0, w).reduce((n, { rows: r }) => n + r.length, 0)),
    parts = words.flatMap((w) => w.rows);
  return {
    row,
    words,
    inner(id, word, k) {
      const found = inners.get(id) ?? Float64Array.from(parts, (part) => dot(row(id).rows[0], part));
      inners.set(id, found);
      return found[starts[word] + k];
    },
  };
}

/**
 * Detector: tokens whose input embeddings mean an anchor. The cosine to a concept's embedding is at least `above`, over
 * as many adjacent tokens as the concept has. Of adjacent matches the last is the anchor, or the colon or equals sign
 * that follows within three tokens.
 *
 * @remarks Transactional Attention, section 3.2, which prints neither concepts nor threshold: both are ours. Finds
 * other languages as far as the model's embedding puts their words near the concepts; naming them among the concepts
 * always does. O(D) for each token of the concepts, once for every distinct token of the text.
 */
export const embedding = detector(
  'embedding',
  {
    source: 'Basu 2026, arXiv:2604.11288, section 3.2',
    says: 'Tokens whose input embeddings mean a password, a code and so on.',
    options: {
      concepts,
      above: number(0.6, 'Cosine from which tokens are an anchor.', {
        least: -1,
        most: 1,
        want: 'a cosine from -1 to 1',
      }),
    },
    needs: () => embeddings,
  },
  (o) => {
    const said = String(o.concepts).split(', ');
    const measured = new WeakMap<Embeddings, Measured>();
    const done = new WeakMap<Tokens, boolean[]>();
    return (tokens, beside) => {
      const given = beside as Embeddings; // its declared signal
      const { ids, text: all, offsets } = tokens;
      const m = measured.get(given) ?? measure(given, said);
      const close = done.get(tokens) ?? [];
      measured.set(given, m);
      done.set(tokens, close);
      // looks back only: a sequence that grows is read once
      for (let i = close.length; i < ids.length; i++)
        close.push(m.words.some((_, w) => cosine(m, ids, i, w) >= o.above));
      const ends = close.flatMap((is, i) => (is && !close[i + 1] ? [i] : []));
      return [...new Set(ends.map((i) => signAfter(i, all, offsets)))].sort((a, b) => a - b);
    };
  },
);

/** Cosine between the tokens that end at i and a concept of as many tokens. */
function cosine({ row, words, inner }: Measured, ids: readonly number[], i: number, w: number): number {
  const {
      rows: { length },
      square,
    } = words[w],
    from = i + 1 - length;
  if (from < 0 || length === 0) return -1;
  let sum = 0,
    own = 0;
  for (let k = 0; k < length; k++) {
    sum += inner(ids[from + k], w, k);
    own += row(ids[from + k]).square;
  }
  return sum / (Math.sqrt(own * square) || 1);
}

/** Returns the token of the sign that follows an anchor in its clause, else the anchor. */
function signAfter(i: number, text: string, offsets: Tokens['offsets']): number {
  for (let j = i; j <= Math.min(offsets.length - 1, i + NEAR); j++) {
    const [start, end] = offsets[j],
      sign = SIGN.exec(text.slice(start, end + 1));
    if (sign && start + sign.index < end) return j;
    if (/[\n.!?;,]/.test(text.slice(start, end))) return i;
  }
  return i;
}
