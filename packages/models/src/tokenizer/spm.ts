import { SPACE } from './token-bytes.ts';

/** Words whose pieces are kept for when they come again. */
const REMEMBERED = 10_000;

/**
 * SentencePiece's BPE (Kudo and Richardson 2018, arXiv:1808.06226): of all neighbours that make a piece together, those
 * with the highest score
 * are joined first, the leftmost of equals. A merge list cannot say this: two pairs that make the same piece would get
 * different ranks.
 * What ends as no piece becomes the byte tokens of its UTF-8, or the unknown token where one is missing.
 */
export function spmEncoder(
  pieces: ReadonlyMap<string, number>,
  scores: ArrayLike<number>,
  byteIds: ReadonlyMap<number, number>,
  unknown: number,
): (text: string) => number[] {
  const encoder = new TextEncoder();
  const fallback = (char: string): number[] => {
    const bytes = Array.from(encoder.encode(char), (byte) => byteIds.get(byte));
    return bytes.every((id) => id !== undefined) ? bytes : [unknown];
  };
  const scoreOf = (piece: string): number | undefined => {
    const id = pieces.get(piece);
    return id === undefined ? undefined : scores[id];
  };
  const encode = (text: string): number[] => {
    const { starts, ends, next } = join(text, scoreOf);
    const ids: number[] = [];
    for (let at = 0; at < starts.length; at = next[at] as number) {
      const piece = text.slice(starts[at], ends[at]);
      const id = pieces.get(piece);
      if (id === undefined) ids.push(...fallback(piece));
      else ids.push(id);
    }
    return ids;
  };
  // Where no piece goes on after the end of a word, no join does: words can be done one by one.
  const end = new RegExp(`[^${SPACE}]${SPACE}`);
  for (const piece of pieces.keys()) if (end.test(piece)) return encode;
  const words = new RegExp(`${SPACE}*[^${SPACE}]+|${SPACE}+`, 'g');
  const known = new Map<string, readonly number[]>();
  return (text) => {
    const ids: number[] = [];
    for (const word of text.match(words) ?? []) {
      const found = known.get(word) ?? encode(word);
      if (known.size >= REMEMBERED) known.clear();
      known.set(word, found);
      for (const id of found) ids.push(id);
    }
    return ids;
  };
}

interface Pair {
  readonly score: number;
  readonly left: number;
  readonly start: number;
  readonly end: number;
}

/** Symbols `[starts, ends)` of the text, linked by `next`, after all joins. */
function join(
  text: string,
  scoreOf: (piece: string) => number | undefined,
): { starts: number[]; ends: number[]; next: number[] } {
  const starts: number[] = [];
  for (let at = 0; at < text.length; at += (text.codePointAt(at) ?? 0) > 0xffff ? 2 : 1) starts.push(at);
  const ends = starts.map((_, i) => starts[i + 1] ?? text.length);
  const next = starts.map((_, i) => i + 1);
  const previous = starts.map((_, i) => i - 1);
  const gone = new Uint8Array(starts.length);
  const heap: Pair[] = [];
  const offer = (left: number, right: number): void => {
    if (left < 0 || right >= starts.length) return;
    const [start, end] = [starts[left] as number, ends[right] as number];
    const score = scoreOf(text.slice(start, end));
    if (score !== undefined) push(heap, { score, left, start, end });
  };
  for (let i = 0; i + 1 < starts.length; i++) offer(i, i + 1);
  for (let best = pop(heap); best !== undefined; best = pop(heap)) {
    const { left, end } = best;
    const right = next[left] as number;
    // A pair of which either side has been joined to something else since is no pair any more.
    if (gone[left] === 1 || right >= starts.length || ends[right] !== end) continue;
    gone[right] = 1;
    ends[left] = end;
    const after = next[right] as number;
    next[left] = after;
    if (after < starts.length) previous[after] = left;
    offer(previous[left] as number, left);
    offer(left, after);
  }
  return { starts, ends, next };
}

function before(a: Pair, b: Pair): boolean {
  return a.score > b.score || (a.score === b.score && a.left < b.left);
}

/** A binary heap, best pair first. */
function push(heap: Pair[], pair: Pair): void {
  let at = heap.length;
  for (; at > 0; ) {
    const parent = (at - 1) >> 1;
    if (!before(pair, heap[parent] as Pair)) break;
    heap[at] = heap[parent] as Pair;
    at = parent;
  }
  heap[at] = pair;
}

function pop(heap: Pair[]): Pair | undefined {
  const best = heap[0];
  const last = heap.pop();
  if (best === undefined || last === undefined || heap.length === 0) return best;
  let at = 0;
  for (let child = 1; child < heap.length; child = 2 * at + 1) {
    if (child + 1 < heap.length && before(heap[child + 1] as Pair, heap[child] as Pair)) child++;
    if (!before(heap[child] as Pair, last)) break;
    heap[at] = heap[child] as Pair;
    at = child;
  }
  heap[at] = last;
  return best;
}
