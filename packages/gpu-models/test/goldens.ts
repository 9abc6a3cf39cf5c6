import { fileURLToPath } from 'node:url';

/** The folder of a reference checkpoint: `KV_SHARED`, or `shared` beside the repository. */
export const golden = (kind: string): string =>
  `${process.env['KV_SHARED'] ?? fileURLToPath(new URL('../../../../shared', import.meta.url))}/data/goldens/${kind}`;
