import type { PacedSteps } from '@kv/core/engine';

/** Milliseconds after which long work lets the event loop turn, as soon as it can. */
export const HELD = 30;

const eventLoop = (): Promise<void> =>
  new Promise((resolve) => {
    (typeof setImmediate === 'function' ? setImmediate : setTimeout)(() => resolve());
  });

/**
 * Yields to the event loop, so that an abort can arrive: computing without a pause would keep it out. Only where a
 * signal says that somebody may abort.
 */
export async function yieldToEvents(signal: AbortSignal | undefined): Promise<void> {
  if (signal) await eventLoop();
}

/** Something to await where work can pause: it lets the event loop turn if that was held for 30 ms. */
export function turns(): () => Promise<void> {
  let since = performance.now();
  return async () => {
    if (performance.now() - since < HELD) return;
    await eventLoop();
    since = performance.now();
  };
}

/**
 * Does work that gives way, and lets the event loop turn once it was held for 30 ms.
 *
 * @param spent is told the milliseconds of each turn
 */
export async function inTurns<T>(work: PacedSteps<T>, spent: (ms: number) => void): Promise<T> {
  for (let since = performance.now(); ; ) {
    const { done, value } = work.next(),
      held = performance.now() - since;
    if (!done && held < HELD) continue;
    spent(held);
    if (done) return value;
    await eventLoop();
    since = performance.now();
  }
}
