import { cpu } from '@kv/cpu';
import { runView } from '@kv/core/engine';
import type { LayerContext } from '@kv/core';
import type { CompiledPolicy } from '@kv/core/engine';
import { viewsActing } from '../host/visibility.ts';

/** What a decoded token reads under views, over all layers and query heads. */
export interface ViewReads {
  /** Slots that query heads attend to. */
  readonly slots: number;
  /** Numbers of keys, labels and bounds that are read to choose them. */
  readonly numbers: number;
}

/**
 * Predicts what a decoded token reads under the views of a policy, in layers of these contexts, whose slots are the last
 * positions and where every row chooses for itself; rows that share what others chose read less. Undefined if no view acts,
 * or if one of them neither hides by position alone nor has loops.
 */
export function predictViews(policy: CompiledPolicy, layers: readonly LayerContext[]): ViewReads | undefined {
  const hooks = viewsActing(policy, 'decode');
  if (hooks.length === 0 || hooks.some(({ chooses, needs }) => !chooses && needs.length > 0)) return undefined;
  const { ops } = cpu;
  let [slots, numbers] = [0, 0];
  try {
    for (const at of layers) {
      let shown = at.slots;
      for (const hook of hooks) {
        const { chooses } = hook;
        if (!chooses) {
          const { mask, lower, sinks = 0 } = runView(hook, { at, ops, read: () => undefined });
          if (mask) return undefined;
          // the slots are the last positions, and a token sees its own
          if (lower)
            shown = Math.min(
              shown,
              at.slots -
                Math.max(0, Math.min(lower(at.length - 1), at.length - 1) - Math.max(sinks, at.length - at.slots)),
            );
        } else if (chooses.acts(at)) {
          shown = Math.min(shown, chooses.budget);
          for (const { reads } of chooses.loops) numbers += at.queryHeads * (reads?.(at) ?? 0);
        }
      }
      slots += at.queryHeads * shown;
    }
  } catch {
    return undefined; // it reads something after all
  }
  return { slots, numbers };
}
