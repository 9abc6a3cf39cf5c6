import { runStepHook } from '@kv/core/engine';
import type { ActivePolicy } from '../memory/active-policy.ts';
import { writeState } from './event.ts';
import type { HostState } from './host-state.ts';

/** Runs the policy's step hooks after a decoded token: in each layer, or once for hooks that span the model. */
export async function runStepHooks(caches: HostState, active: ActivePolicy): Promise<void> {
  const { layers, slots, shared, context } = caches,
    { backend } = context,
    { ops } = backend;
  for (const hook of active.policy.hooks('step')) {
    const hooked = hook.reach === 'model' ? [0] : [...layers.keys()];
    const states = runStepHook(
      hook,
      hooked.map((l) => ({ at: slots.layerContext(l, active), ops, read: caches.reader(l) })),
    );
    for (const [i, state] of states.entries())
      await writeState(hook.needs, state, layers[hooked[i]].states, shared, backend);
  }
}
