import { KvError } from '@kv/core';
import { sameSignal, signalKey } from '@kv/core/engine';
import type { Signal, Cell } from '@kv/core';
import type { Course } from '../sequence/course.ts';
import { writeState } from './event.ts';
import type { HostState } from './host-state.ts';

/** Runs what the policy does after every decoded token: in each layer, or once for hooks that reach over the model. */
export async function runStepHooks(memory: HostState, course: Course): Promise<void> {
  const { backend } = memory;
  for (const hook of course.policy.hooks('step')) {
    const layers = hook.reach === 'model' ? [0] : [...memory.layers.keys()];
    const cells = layers.map((l): Cell => {
      const read = memory.reader(l);
      return {
        at: memory.at(l, course),
        ops: backend.ops,
        draft: { budgets: backend.ops.from({ data: [0], shape: [1, 1] }), state: new Map(), checks: [] },
        read<V>(signal: Signal<string, V>): V {
          if (!hook.needs.some((s) => sameSignal(s, signal)))
            throw new KvError(hook.label, `reads the signal ${signalKey(signal)}, which it does not declare`);
          return read(signal) as V;
        },
      };
    });
    for (const [i, state] of hook.run(cells).entries())
      await writeState(hook.needs, state, memory.layers[layers[i]].states, memory.shared, backend);
  }
}
