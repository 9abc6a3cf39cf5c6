import { KvError } from './errors.ts';

/**
 * Turns the failure to allocate an array, a WebAssembly memory or a thread's heap into a sentence; returns any other
 * error unchanged.
 */
export function outOfMemory(error: unknown): unknown {
  if (!(error instanceof Error)) return error;
  const { name, message, code } = error as Error & { readonly code?: unknown }, // all that arrives of a thread's
    full = name === 'RangeError' && /allocation failed|could not allocate memory/.test(message);
  return full || code === 'ERR_WORKER_OUT_OF_MEMORY'
    ? new KvError('memory', 'not enough: take a smaller model, prompt or budget, fewer workers, or end other programs')
    : error;
}
