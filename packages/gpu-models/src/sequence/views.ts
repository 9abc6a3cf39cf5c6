import { runView } from '@kv/core/engine';
import type { AnySignal, At, Tensor } from '@kv/core';
import type { Compiled } from '@kv/core/engine';
import type { Scope } from '@kv/gpu';

/**
 * What hides slots from queries beside causality and the layer's window: bounds by position, and a mask that is 0 where
 * a slot is hidden.
 */
export interface Hidden {
  readonly bounds: readonly { readonly lower: (position: number) => number; readonly sinks: number }[];
  readonly mask?: Tensor;
}

/** What the policy's views hide in a layer now: masks stay on the device, joined by their product. */
export function hiddenNow(
  policy: Compiled,
  phase: 'prefill' | 'decode',
  at: At,
  read: (signal: AnySignal) => unknown,
  { ops }: Scope,
  write: (needs: readonly AnySignal[], state: ReadonlyMap<string, Tensor>) => void,
): Hidden {
  const bounds: Hidden['bounds'][number][] = [];
  let all: Tensor | undefined;
  for (const hook of policy.hooks('view')) {
    if (hook.during !== 'both' && hook.during !== phase) continue;
    const { mask, sinks = 0, lower, state } = runView(hook, { at, ops, read });
    if (state) write(hook.needs, state);
    if (mask) all = all ? ops.mul(all, mask) : mask;
    if (lower) bounds.push({ lower, sinks });
  }
  return { bounds, ...(all && { mask: all }) };
}
