import { KvError } from './errors.ts';

/** An array, a WebAssembly memory or a thread's heap that did not fit, as a sentence; any other error as it is. */
export function outOfMemory(error: unknown): unknown {
  if (!(error instanceof Error)) return error;
  const { name, message, code } = error as Error & { readonly code?: unknown }, // all that arrives of a thread's
    full = name === 'RangeError' && /allocation failed|could not allocate memory/.test(message);
  return full || code === 'ERR_WORKER_OUT_OF_MEMORY'
    ? new KvError(
        'memory',
        'expected room for what was asked for, got none: take a smaller model, prompt or budget, fewer workers, or end other programs',
      )
    : error;
}
