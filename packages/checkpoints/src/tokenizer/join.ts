import type { Pausable } from './paused.ts';
import type { WorkLimit } from './work-limit.ts';

/**
 * Returns the rank of joining `text[start, middle)` and `text[middle, end)`, 0 joined first; `undefined`
 * if they cannot be.
 */
export type PairRank = (text: string, start: number, middle: number, end: number) => number | undefined;

/** Multiplier that packs rank and position into one number, ordered as pairs are joined. */
const PLACES = 2 ** 26;

/**
 * Joins neighbouring characters of a text pair by pair in order of rank, the leftmost of equals first, and passes the
 * resulting pieces to `take` in order. O(n log n) for n characters, at some 30 bytes each.
 */
export function* join(text: string, rankOf: PairRank, work: WorkLimit, take: (piece: string) => void): Pausable<void> {
  const starts = new Int32Array(text.length + 1);
  let count = 0;
  for (let at = 0; at < text.length; at += (text.codePointAt(at) as number) > 0xffff ? 2 : 1) {
    starts[count++] = at;
    work.spend(1);
    if (work.due) yield;
  }
  starts[count] = text.length;
  const [next, previous] = [new Int32Array(count), new Int32Array(count)];
  /** The rank of the pair that begins at a character; -1 for none. */
  const ranks = new Int32Array(count).fill(-1);
  const heap: number[] = [];
  const offer = (left: number, right: number): void => {
    const end = starts[next[right] as number] as number,
      rank = rankOf(text, starts[left] as number, starts[right] as number, end) ?? -1;
    ranks[left] = rank;
    work.spend(16);
    if (rank >= 0) push(heap, rank * PLACES + left);
  };
  for (let i = 0; i < count; i++) [next[i], previous[i]] = [i + 1, i - 1];
  for (let i = 0; i + 1 < count; i++) {
    offer(i, i + 1);
    if (work.due) yield;
  }
  for (let best = pop(heap); best !== undefined; best = pop(heap)) {
    work.spend(16);
    if (work.due) yield;
    const left = best % PLACES;
    // One side of the pair may have been joined to something else since.
    if (ranks[left] !== (best - left) / PLACES) continue;
    const right = next[left] as number,
      after = next[right] as number;
    ranks[left] = ranks[right] = -1;
    next[left] = after;
    if (after < count) {
      previous[after] = left;
      offer(left, after);
    }
    if (left > 0) offer(previous[left] as number, left);
  }
  for (let at = 0; at < count; at = next[at] as number) {
    take(text.slice(starts[at], starts[next[at] as number]));
    work.spend(4);
    if (work.due) yield;
  }
}

/** Pushes onto a binary min-heap. */
function push(heap: number[], key: number): void {
  let at = heap.length;
  for (; at > 0; ) {
    const parent = (at - 1) >> 1;
    if (key >= (heap[parent] as number)) break;
    heap[at] = heap[parent] as number;
    at = parent;
  }
  heap[at] = key;
}

function pop(heap: number[]): number | undefined {
  const best = heap[0];
  const last = heap.pop();
  if (best === undefined || last === undefined || heap.length === 0) return best;
  let at = 0;
  for (let child = 1; child < heap.length; child = 2 * at + 1) {
    if (child + 1 < heap.length && (heap[child + 1] as number) < (heap[child] as number)) child++;
    if ((heap[child] as number) >= last) break;
    heap[at] = heap[child] as number;
    at = child;
  }
  heap[at] = last;
  return best;
}
