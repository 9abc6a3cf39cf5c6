import { positions, tokens, weigher } from '@kv/core';
import type { Weigher } from '@kv/core';
import { marked } from './detector.ts';
import type { Detector } from './detector.ts';
import { regex } from './regex.ts';

/** Anchor status, S = 1 on anchors and 0 elsewhere. Transactional Attention, eq. 1. Weights on KV rows `[G, n]`. */
export function structure({ anchors = regex }: { /** @defaultValue regex */ readonly anchors?: Detector } = {}): Weigher<'structure'> {
  const find = marked(anchors);
  return weigher({ name: 'structure', options: { anchors: anchors === regex ? undefined : anchors.name || 'own' } }, [tokens, positions],
    ({ ops, at, tokens: t, positions: p }) => ops.take(ops.from(find(t, at.length)), p));
}
