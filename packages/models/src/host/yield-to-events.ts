/**
 * Yields to the event loop, so that an abort can arrive: computing without a pause would keep it out. Only where a
 * signal says that somebody may abort.
 */
export async function yieldToEvents(signal: AbortSignal | undefined): Promise<void> {
  if (signal)
    await new Promise<void>((resolve) => {
      (typeof setImmediate === 'function' ? setImmediate : setTimeout)(() => resolve());
    });
}
