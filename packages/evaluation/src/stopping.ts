import type { Bench } from './subject.ts';

/**
 * Returns a bench whose sequences stop before the next layer once the signal is aborted, so that no native code is
 * still running.
 */
export const stopping = ({ model, names }: Bench, signal: AbortSignal): Bench => ({
  model: { ...model, memory: (options) => model.memory({ ...options, signal }) },
  names,
});
