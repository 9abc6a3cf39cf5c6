import { positions, tokens } from '@kv/core';
import { weigher } from '@kv/core/old';
import type { Weigher } from '@kv/core';
import { extra, given, marked } from './detector.ts';
import type { Detector } from './detector.ts';
import { regex } from './regex.ts';

/** Anchor status, S = 1 on anchors and 0 elsewhere. Transactional Attention, eq. 1. Weights on KV rows `[G, n]`. */
export function structure({
  anchors = regex,
}: {
  /** @defaultValue regex */ readonly anchors?: Detector;
} = {}): Weigher<'structure'> {
  const find = marked(anchors),
    needs = [tokens, positions] as const;
  return weigher(
    { name: 'structure', options: { anchors: anchors === regex ? undefined : anchors.name || 'own' } },
    [...needs, ...extra(anchors)] as unknown as typeof needs,
    (ctx) => ctx.ops.take(ctx.ops.from(find(ctx.tokens, ctx.at.length, given(ctx, anchors))), ctx.positions),
  );
}
