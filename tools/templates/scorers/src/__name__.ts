import { values } from '@kv/core';
import { scorer } from '@kv/core/old';
import type { Scorer } from '@kv/core';

/**
 * Value norm: `|v_t|`, so tokens with long value vectors stay.
 *
 * @remarks Source: authors, year, identifier, equation. Scores on KV rows `[G, n]`, f32, at least 0. O(G n d).
 */
export const __camel__ = (): Scorer<'__camel__'> => scorer('__camel__', [values], ({ ops, values: v }) => ops.norm(v));
