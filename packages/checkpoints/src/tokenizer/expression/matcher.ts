import type { WorkLimit } from '../work-limit.ts';
import { OP, WIDTH, type RegexProgram } from './program.ts';

/** `[start, end)` of a match in UTF-16 code units. */
export type RegexMatch = readonly [start: number, end: number];

/**
 * Yields the matches of an expression in a text without lone surrogates, as `matchAll` finds them: leftmost first, then
 * in backtracking order. An instruction that failed at a position is not tried there again, so that work grows with
 * text times program, as in RE2's BitState and in Davis, Servant and Lee (2021, "Using Selective Memoization to Defeat
 * Regular Expression Denial of Service"). Steps are counted as well; `undefined` is a pause.
 */
export function* matches(
  { code, sets, runs, loops, first }: RegexProgram,
  text: string,
  work: WorkLimit,
): Generator<RegexMatch | undefined, void> {
  const { length } = text;
  const memory = remembering(runs, loops, length);
  for (let at = 0; at <= length; ) {
    if (work.due) yield;
    if (first !== undefined && (at === length || !first.has(text.codePointAt(at) as number))) {
      at = after(text, at);
      work.spend(1);
      continue;
    }
    const end = attempt({ code, sets, text, work, memory }, 0, at);
    work.spend(1);
    if (end < 0) at = after(text, at);
    else {
      yield [at, end];
      forget(memory, end);
      at = end > at ? end : after(text, at);
    }
  }
}

/** Memo of what an expression has tried on a text. */
interface Memory {
  readonly loops: number;
  /** A bit for each loop and position: whether the loop was entered there. */
  readonly been: Uint32Array;
  /** For each run, the range over which its characters were last seen. */
  readonly from: Int32Array;
  readonly to: Int32Array;
  /** For each run that ended at `tail`: the position from which the rest of the expression has been tried. */
  readonly tried: Int32Array;
  readonly tail: Int32Array;
}

interface Attempt extends Pick<RegexProgram, 'code' | 'sets'> {
  readonly text: string;
  readonly work: WorkLimit;
  readonly memory: Memory;
}

function remembering(runs: number, loops: number, length: number): Memory {
  const none = (): Int32Array => new Int32Array(runs).fill(-1);
  return {
    loops,
    been: new Uint32Array(Math.ceil((loops * (length + 1)) / 32)),
    ...{ from: none(), to: none(), tried: none(), tail: none() },
  };
}

/** Clears the memo at a match's end: what was tried there led to the match and may be tried again. */
function forget({ loops, been, tail }: Memory, end: number): void {
  tail.fill(-1);
  for (let bit = end * loops; bit < (end + 1) * loops; bit++)
    been[bit >> 5] = (been[bit >> 5] as number) & ~(1 << (bit & 31));
}

/** Returns where a match ends that begins at `start` with instruction `entry`, or -1. */
function attempt(what: Attempt, entry: number, start: number): number {
  const { code, sets, text, work, memory } = what;
  const { length } = text;
  /** Backtracking stack, last tried first: instruction, position, and for a run its least end and its maximum count. */
  const stack: number[] = [];
  let pc = entry;
  let at = start;
  let steps = 0;
  for (;;) {
    const i = pc * WIDTH;
    const a = code[i + 1] as number;
    const b = code[i + 2] as number;
    const c = code[i + 3] as number;
    const d = code[i + 4] as number;
    let fails = false;
    if (++steps > 1000) {
      work.spend(steps);
      steps = 0;
    }
    switch (code[i]) {
      case OP.match:
        work.spend(steps);
        return at;
      case OP.run:
      case OP.hold: {
        const set = sets[c] as (typeof sets)[number];
        let end = at;
        let least = a === 0 ? at : -1;
        let count = 0;
        // Memo hit: extend to the end position already recorded for this run.
        const [from, to] = b < 0 ? [memory.from[d] as number, memory.to[d] as number] : [-1, -1];
        if (a <= 1 && at >= from && at < to) {
          end = to;
          if (a === 1) least = after(text, at);
        } else {
          while (count !== b && end < length) {
            if (end === from && count >= a && to > end) {
              end = to;
              break;
            }
            const unit = text.charCodeAt(end);
            const wide = unit >= 0xd800 && unit < 0xdc00;
            if (!set.has(wide ? (text.codePointAt(end) as number) : unit)) break;
            end += wide ? 2 : 1;
            if (++count === a) least = end;
          }
          steps += count >> 2;
          if (b < 0) {
            memory.from[d] = at;
            memory.to[d] = end;
          }
        }
        if (least < 0) {
          fails = true;
          break;
        }
        pc++;
        if (least === end || code[i] === OP.hold) {
          at = end;
          break;
        }
        if (b >= 0) {
          stack.push(pc - 1, end, least, -1);
          at = end;
          break;
        }
        // From `tried` to the end, the rest has failed or is being tried.
        at = memory.tail[d] === end ? before(text, memory.tried[d] as number) : end;
        if (at < least) {
          fails = true;
          break;
        }
        memory.tail[d] = end;
        memory.tried[d] = at;
        if (at > least) stack.push(pc - 1, at, least, end);
        break;
      }
      case OP.loop: {
        const bit = at * memory.loops + d;
        const word = memory.been[bit >> 5] as number;
        if ((word & (1 << (bit & 31))) !== 0) {
          fails = true;
          break;
        }
        memory.been[bit >> 5] = word | (1 << (bit & 31));
        if (c >= 0 && !isNext(sets[c], text, at)) pc = b;
        else {
          stack.push(b, at, -1, -1);
          pc = a;
        }
        break;
      }
      case OP.split:
        if (c >= 0 && !isNext(sets[c], text, at)) pc = b;
        else {
          stack.push(b, at, -1, -1);
          pc = a;
        }
        break;
      case OP.jump:
        pc = a;
        break;
      case OP.peek: {
        const place = b === 1 ? before(text, at) : at;
        fails = isNext(sets[a], text, place) !== (c === 0);
        pc++;
        break;
      }
      default: {
        const fresh = remembering(memory.from.length, memory.loops, length);
        work.spend(fresh.been.length);
        const end = attempt({ ...what, memory: fresh }, pc + 1, at);
        fails = end < 0 !== (b === 1);
        if (b === 2) at = end;
        pc = a;
      }
    }
    while (fails) {
      const end = stack.pop();
      if (end === undefined) {
        work.spend(steps);
        return -1;
      }
      const least = stack.pop() as number;
      at = stack.pop() as number;
      pc = stack.pop() as number;
      fails = false;
      if (least < 0) break;
      // A run gives back its last character, and every position from which the rest has failed since.
      const run = code[pc * WIDTH + 4] as number;
      const known = end >= 0 && memory.tail[run] === end;
      at = before(text, known ? Math.min(at, memory.tried[run] as number) : at);
      fails = at < least;
      if (fails) continue;
      if (known) memory.tried[run] = at;
      if (at > least) stack.push(pc, at, least, end);
      pc++;
    }
  }
}

function isNext(set: RegexProgram['sets'][number] | undefined, text: string, at: number): boolean {
  return at >= 0 && at < text.length && set?.has(text.codePointAt(at) as number) === true;
}

/** Returns the position after the character at `at`. */
function after(text: string, at: number): number {
  const unit = text.charCodeAt(at);
  return unit >= 0xd800 && unit < 0xdc00 ? at + 2 : at + 1;
}

/** Returns the position of the character before `at`, -1 at the beginning. */
function before(text: string, at: number): number {
  const unit = text.charCodeAt(at - 1);
  return unit >= 0xdc00 && unit < 0xe000 ? at - 2 : at - 1;
}
