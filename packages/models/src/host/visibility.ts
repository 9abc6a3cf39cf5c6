import type { AnySignal, At, Backend, Compiled, Tensor } from '@kv/core';
import type { Visible } from '../attention/visible.ts';

/** What the policy's views leave visible to the queries of this layer now, all of it at once. */
export async function visibleNow(policy: Compiled, phase: 'prefill' | 'decode', at: At, read: (signal: AnySignal) => unknown, backend: Backend, write: (needs: readonly AnySignal[], state: ReadonlyMap<string, Tensor>) => Promise<void>): Promise<readonly Visible[]> {
  const out: Visible[] = [];
  for (const hook of policy.hooks('view')) {
    if (hook.during !== 'both' && hook.during !== phase) continue;
    const { mask, sinks, lower, state } = hook.run({ at, ops: backend.ops, read: <V>(signal: AnySignal) => read(signal) as V, draft: { budgets: backend.ops.from({ data: [at.budget], shape: [1, 1] }), state: new Map(), checks: [] } });
    if (state) await write(hook.needs, state);
    out.push({
      ...(mask && { mask: Uint8Array.from((await backend.read([mask]))[0]!.data, (x) => (x === 0 ? 0 : 1)) }),
      ...(sinks !== undefined && { sinks }), ...(lower && { lower }),
    });
  }
  return out;
}
