import type { LayerContext, Tokens } from '@kv/core';
import type { CoAttention } from './edges.ts';

/** Tokens from `start` up to, not including, `end`. */
export interface Span {
  readonly start: number;
  readonly end: number;
}

/**
 * Ranges that are cut separately: the prompt, then runs of `run` generated tokens, the last of which may be shorter.
 * More tokens do not change the cuts of an earlier event.
 */
export function stretches(
  { length, promptLength, step }: Pick<LayerContext, 'length' | 'promptLength' | 'step'>,
  run: number,
): readonly Span[] {
  const prompt = Math.min(promptLength, length),
    starts = [0],
    first = length - step;
  for (let p = first + run * Math.max(0, Math.floor((prompt - first) / run)); p < length; p += run)
    if (p >= prompt && p > 0) starts.push(p);
  if (prompt > 0 && prompt < length && !starts.includes(prompt)) starts.push(prompt);
  return starts.sort((a, b) => a - b).map((start, i, all) => ({ start, end: all[i + 1] ?? length }));
}

/** Returns sentences: a token whose text ends in . ! ? or holds a newline ends its sentence. */
export function sentenceSpans({ text, offsets }: Tokens, { start: from, end }: Span): readonly Span[] {
  const spans: Span[] = [];
  let start = from;
  for (let i = from; i < end; i++) {
    const [first, last] = offsets[i] ?? [0, 0];
    if (i === end - 1 || /[.!?]\s*$|\n/.test(text.slice(first, last))) {
      spans.push({ start, end: i + 1 });
      start = i + 1;
    }
  }
  return spans;
}

const INTERFACE = 5;
type Direction = 'forward' | 'either';
/**
 * Mean weight of the edges from the last five tokens of one span to the first five of the next, or between them in
 * either direction; 0 without any. Eq. 16 to 18.
 */
function interfaceStrength(
  { from, to, weight }: CoAttention,
  first: Uint32Array,
  left: Span,
  right: Span,
  edges: Direction,
): number {
  const low = Math.max(left.start, left.end - INTERFACE),
    high = Math.min(right.end, right.start + INTERFACE),
    border = right.start;
  let sum = 0,
    count = 0;
  const last = edges === 'forward' ? border : high;
  for (let e = first[low] ?? 0; e < from.length && from[e] < last; e++) {
    if (to[e] < low || to[e] >= high || from[e] < border === to[e] < border) continue;
    sum += weight[e];
    count++;
  }
  return count === 0 ? 0 : sum / count;
}

export interface TrunkSizes {
  /** Most tokens of a trunk. */
  readonly maxSize: number;
  /** Strength above which sentences merge; 'adaptive': the median strength between neighbours. */
  readonly merge: number | 'adaptive';
  readonly edges: Direction;
}

/** Returns the index of each token's first edge. */
export function firstEdges({ from }: CoAttention, length: number): Uint32Array {
  const first = new Uint32Array(length + 1);
  for (const i of from) first[i + 1]++;
  for (let i = 0; i < length; i++) first[i + 1] += first[i];
  return first;
}

/**
 * Returns the sentences of a stretch merged left to right where their edges are strong, none longer than `maxSize`. Eq.
 * 16 to 19 and step 3.
 */
export function trunkSpans(
  tokens: Tokens,
  stretch: Span,
  edges: CoAttention,
  first: Uint32Array,
  { maxSize, merge, edges: direction }: TrunkSizes,
): readonly Span[] {
  const sentences = sentenceSpans(tokens, stretch);
  const strength = (a: Span, b: Span): number => interfaceStrength(edges, first, a, b, direction);
  const between = sentences
    .slice(1)
    .map((s, i) => strength(sentences[i], s))
    .sort((a, b) => a - b);
  const threshold = merge === 'adaptive' ? (between[Math.floor(between.length / 2)] ?? 0) : merge;
  const merged = sentences.reduce<Span[]>((done, next) => {
    const running = done.at(-1);
    if (running && strength(running, next) > threshold && next.end - running.start <= maxSize)
      done[done.length - 1] = { start: running.start, end: next.end };
    else done.push(next);
    return done;
  }, []);
  return parts(merged, maxSize);
}

/** Newest results for each text, with the inputs that they were made of. */
const known = new WeakMap<Tokens, Map<string, { readonly of: string; readonly value: unknown }>>();

/** Returns the result of `make` for a text and a name, computed once for the same `of`: every layer asks for it. */
export function memoise<T>(tokens: Tokens, name: string, of: readonly unknown[], make: () => T): T {
  const made = known.get(tokens) ?? new Map<string, { readonly of: string; readonly value: unknown }>(),
    before = made.get(name),
    key = of.join();
  if (before?.of === key) return before.value as T;
  const value = make();
  made.set(name, { of: key, value });
  known.set(tokens, made);
  return value;
}

/** Splits spans of more than `maxSize` tokens into equal parts of at most that many. */
export function parts(spans: readonly Span[], maxSize: number): readonly Span[] {
  return spans.flatMap(({ start, end }) => {
    const pieces = Math.max(1, Math.ceil((end - start) / maxSize));
    return Array.from({ length: pieces }, (_, p) => ({
      start: start + Math.floor((p * (end - start)) / pieces),
      end: start + Math.floor(((p + 1) * (end - start)) / pieces),
    }));
  });
}

/** Returns the unit of every position. */
export function byPosition(spans: readonly Span[], length: number): Uint32Array {
  const table = new Uint32Array(length);
  spans.forEach(({ start, end }, u) => table.fill(u, start, end));
  return table;
}
