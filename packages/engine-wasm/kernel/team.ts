// @ts-nocheck: AssemblyScript, not TypeScript
// Threads that run the same code over one memory: thread 0 commands, the others serve; barriers and claims of work.
//
// The control block, 64 bytes a line: number of the command | its words, two lines | arrivals | number of the barrier | sleepers |
// claims of each thread.

const COMMAND: usize = 0, WORDS: usize = 64, ARRIVED: usize = 192, TURN: usize = 256, SLEEPERS: usize = 320, CLAIMS: usize = 384;

let CONTROL: usize = 0;
/** This thread, and how many there are. */
export let ME: i32 = 0, THREADS: i32 = 1;
/** Turns of a waiting loop before a thread sleeps; negative where it may not. */
let SPINS: i32 = 0;
/** Whose work is claimed next. */
let VICTIM: i32 = 0;
/** Work that one thread alone has claimed. */
let ALONE: i32 = 0;

/** Bytes of the control block of so many threads. */
export function controlBytes(threads: i32): usize {
  return CLAIMS + 64 * <usize>threads;
}

export function join(control: usize, me: i32, threads: i32, spins: i32): void {
  CONTROL = control;
  ME = me;
  THREADS = threads;
  SPINS = spins;
}

/** Looks so many times for what never comes: to find out how long that takes. */
export function spin(times: i32): i32 {
  for (let i = 0; i < times; i++) if (atomic.load<i32>(CONTROL + TURN) == -1) return i;
  return times;
}

/** Waits until the number at p is another one than `old`. */
function past(p: usize, old: i32): void {
  let turns = SPINS;
  while (atomic.load<i32>(p) == old) {
    if (turns > 0) turns--;
    else if (turns == 0) {
      atomic.add<i32>(CONTROL + SLEEPERS, 1);
      atomic.wait<i32>(p, old, -1);
      atomic.sub<i32>(CONTROL + SLEEPERS, 1);
    }
  }
}

/** Wakes whoever sleeps for the number at p, which has just changed. */
function wake(p: usize): void {
  if (atomic.load<i32>(CONTROL + SLEEPERS) > 0) atomic.notify(p, THREADS);
}

/** Returns when all threads have come here; nothing is claimed then. */
export function barrier(): void {
  VICTIM = 0;
  if (THREADS == 1) {
    ALONE = 0;
    return;
  }
  const turn = atomic.load<i32>(CONTROL + TURN);
  if (atomic.add<i32>(CONTROL + ARRIVED, 1) + 1 < THREADS) {
    past(CONTROL + TURN, turn);
    return;
  }
  atomic.store<i32>(CONTROL + ARRIVED, 0);
  for (let t = 0; t < THREADS; t++) atomic.store<i32>(CONTROL + CLAIMS + 64 * <usize>t, 0);
  atomic.store<i32>(CONTROL + TURN, turn + 1);
  wake(CONTROL + TURN);
}

/**
 * The next of `count` pieces of work that nobody has, or -1: first of this thread's own share, so that weights stay in
 * its cache, then of the others'. One kind of work between two barriers.
 */
export function claim(count: i32): i32 {
  if (THREADS == 1) return ALONE < count ? ALONE++ : -1;
  for (; VICTIM < THREADS; VICTIM++) {
    const t = (ME + VICTIM) % THREADS, from = (count * t) / THREADS, to = (count * (t + 1)) / THREADS;
    const at = CONTROL + CLAIMS + 64 * <usize>t;
    if (atomic.load<i32>(at) < to - from) {
      const next = atomic.add<i32>(at, 1);
      if (next < to - from) return from + next;
    }
  }
  return -1;
}

/** This thread's share of n rows. */
// @ts-ignore: decorator
@inline
export function shareFrom(n: i32): usize {
  return <usize>((n * ME) / THREADS);
}
// @ts-ignore: decorator
@inline
export function shareTo(n: i32): usize {
  return <usize>((n * (ME + 1)) / THREADS);
}

/** A word of the command. */
// @ts-ignore: decorator
@inline
export function word(i: usize): usize {
  return <usize>load<u32>(CONTROL + WORDS + 4 * i);
}

/** Lets the others start on the command whose words are written. */
export function command(): void {
  if (THREADS == 1) return;
  atomic.add<i32>(CONTROL + COMMAND, 1);
  wake(CONTROL + COMMAND);
}

/** Waits for the command behind `last`. */
export function nextCommand(last: i32): i32 {
  past(CONTROL + COMMAND, last);
  return last + 1;
}
