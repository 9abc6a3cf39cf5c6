import { id } from '@kv/core';
import type { Id } from '@kv/core';

/** The full cache: evicts nothing. The unit of `compose` under a name. */
export const full = (): Id => ({ ...id, label: 'full' });
