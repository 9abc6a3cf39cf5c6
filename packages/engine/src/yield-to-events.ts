import type { PacedSteps } from '@kv/core/engine';

/** Milliseconds after which long work yields to the event loop, as soon as it can. */
export const YIELD_AFTER = 30;

const eventLoop = (): Promise<void> =>
  new Promise((resolve) => {
    (typeof setImmediate === 'function' ? setImmediate : setTimeout)(() => resolve());
  });

/** Yields to the event loop if there is a signal, so that its abort can arrive: uninterrupted work would block it. */
export async function yieldToEvents(signal: AbortSignal | undefined): Promise<void> {
  if (signal) await eventLoop();
}

/** Returns a function to await where work can pause: it yields to the event loop if that was held for 30 ms. */
export function pauser(): () => Promise<void> {
  let since = performance.now();
  return async () => {
    if (performance.now() - since < YIELD_AFTER) return;
    await eventLoop();
    since = performance.now();
  };
}

/**
 * Runs work that can pause, and yields to the event loop whenever it was held for 30 ms.
 *
 * @param spent is given the milliseconds of each turn
 */
export async function inTurns<T>(work: PacedSteps<T>, spent: (ms: number) => void): Promise<T> {
  for (let since = performance.now(); ; ) {
    const { done, value } = work.next(),
      held = performance.now() - since;
    if (!done && held < YIELD_AFTER) continue;
    spent(held);
    if (done) return value;
    await eventLoop();
    since = performance.now();
  }
}
