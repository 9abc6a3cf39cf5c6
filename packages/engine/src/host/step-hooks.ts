import { runStepHook } from '@kv/core/engine';
import type { ActivePolicy } from '../memory/active-policy.ts';
import { writeState } from './event.ts';
import type { HostState } from './host-state.ts';

/** Runs the policy's step hooks after a decoded token: in each layer, or once for hooks that span the model. */
export async function runStepHooks(memory: HostState, course: ActivePolicy): Promise<void> {
  const { ops } = memory.backend;
  for (const hook of course.policy.hooks('step')) {
    const layers = hook.reach === 'model' ? [0] : [...memory.layers.keys()];
    const states = runStepHook(
      hook,
      layers.map((l) => ({ at: memory.at(l, course), ops, read: memory.reader(l) })),
    );
    for (const [i, state] of states.entries())
      await writeState(hook.needs, state, memory.layers[layers[i]].states, memory.shared, memory.backend);
  }
}
