import { builtin } from '@kv/checkpoints';

/** Returns the number of threads that this machine runs at once, at most 8. */
export function availableThreads(): number {
  const count =
    typeof process === 'object' && process.versions?.node !== undefined
      ? builtin<typeof import('node:os')>('node:os').availableParallelism()
      : (globalThis.navigator?.hardwareConcurrency ?? 1);
  return Math.min(8, count);
}
