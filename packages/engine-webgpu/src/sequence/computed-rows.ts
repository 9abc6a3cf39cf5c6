import { runFreeze } from '@kv/core/engine';
import type { Tensor } from '@kv/core';
import type { Commands } from '@kv/gpu';
import type { ActivePolicy } from '@kv/engine';
import { encodeSlots } from '../operations.ts';
import type { DeviceState } from './device-state.ts';
import { chunkOf, type TokenChunk } from './token-chunk.ts';

/** Rows of a chunk that a layer computes: the first `before` and the last `after` of its tokens. */
export interface ComputedRows {
  readonly before: number;
  readonly after: number;
}

/**
 * Returns the tokens of a chunk that a layer computes during prefill, if the policy freezes some. As many of the last
 * tokens as the layer's ring holds are never frozen.
 */
export function computedRows(
  caches: DeviceState,
  active: ActivePolicy,
  l: number,
  { at, m }: TokenChunk,
): ComputedRows | undefined {
  const [hook] = active.policy.hooks('freeze');
  if (!hook || l === 0 || m === 0) return undefined;
  const { sinks, below } = runFreeze(hook, caches.slots.layerContext(l, active)),
    cut = Math.min(below, caches.context.progress.promptLength - (caches.layers[l].ring?.window ?? 1)),
    first = at[0];
  const before = Math.min(m, Math.max(0, sinks - first)),
    after = Math.min(m, Math.max(0, first + m - cut));
  return before + after >= m ? undefined : { before, after };
}

/** Returns these rows of a chunk as a chunk of their own. */
export function pick(caches: DeviceState, commands: Commands, part: TokenChunk, live: ComputedRows): TokenChunk {
  const { before, after } = live,
    { m, at, layerInputs } = part,
    count = before + after,
    { hidden } = caches.context.model.config,
    x = commands.make([1, count, hidden]);
  move(commands, { ...part.x, shape: [1, m, hidden] }, x, live, m, false);
  const some = Uint32Array.from([...at.subarray(0, before), ...at.subarray(m - after)]);
  return {
    ...chunkOf(caches, commands, some, x),
    ...(layerInputs && { layerInputs: liveRows(commands, layerInputs, m, live) }),
  };
}

/** Returns the live rows `[live, width]` among those `[m, width]` of a chunk. */
export function liveRows(commands: Commands, rows: Tensor, m: number, some: ComputedRows): Tensor {
  const [, width] = rows.shape,
    live = some.before + some.after,
    out = commands.make([1, live, width]);
  move(commands, { ...rows, shape: [1, m, width] }, out, some, m, false);
  return { ...out, shape: [live, width] };
}

/**
 * Puts computed rows `[rows, before + after, ...]` back among the unchanged ones, `[rows, m, ...]`, or takes them out.
 */
export function move(
  commands: Commands,
  from: Tensor,
  to: Tensor,
  { before, after }: ComputedRows,
  m: number,
  back: boolean,
): void {
  encodeSlots(commands, from, to, before);
  encodeSlots(commands, from, to, after, back ? before : m - after, back ? m - after : before);
}
