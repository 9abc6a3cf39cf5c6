/**
 * Lets waiting events in, an abort among them: computing without a pause would keep them out. Only where a signal says
 * that somebody may abort.
 */
export async function breathe(signal: AbortSignal | undefined): Promise<void> {
  if (signal)
    await new Promise<void>((resolve) => {
      (typeof setImmediate === 'function' ? setImmediate : setTimeout)(() => resolve());
    });
}
