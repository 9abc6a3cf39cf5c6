import type { AnySignal, At, Backend, Tensor } from '@kv/core';
import type { Compiled } from '@kv/core/engine';
import type { Visible } from '../attention/visible.ts';

/**
 * What a view hides, and what it chose by: for slots `[rows, n]`, the scores, and 1 where forced; `active` 0 where a
 * row chose nothing.
 */
export interface Chosen extends Visible {
  readonly by?: {
    readonly scores: Float32Array;
    readonly forced?: Float32Array | undefined;
    readonly active?: Float32Array | undefined;
  };
}

/**
 * What the policy's views leave visible to the queries of this layer now, all of it at once; where it is `judged`, with
 * what it was chosen by.
 */
export async function visibleNow(
  policy: Compiled,
  phase: 'prefill' | 'decode',
  at: At,
  read: (signal: AnySignal) => unknown,
  backend: Backend,
  write: (needs: readonly AnySignal[], state: ReadonlyMap<string, Tensor>) => Promise<void>,
  judged: boolean,
): Promise<readonly Chosen[]> {
  const out: Chosen[] = [];
  for (const hook of policy.hooks('view')) {
    if (hook.during !== 'both' && hook.during !== phase) continue;
    const { mask, sinks, lower, state, chosen } = hook.run({
      at,
      ops: backend.ops,
      read: <V>(signal: AnySignal) => read(signal) as V,
      draft: { budgets: backend.ops.from({ data: [at.budget], shape: [1, 1] }), state: new Map(), checks: [] },
    });
    if (state) await write(hook.needs, state);
    const [scores, forced, active] =
      judged && chosen
        ? await Promise.all(
            [chosen.scores, chosen.forced, chosen.active].map(
              async (x) => x && ((await backend.read([x]))[0].data as Float32Array),
            ),
          )
        : [];
    out.push({
      ...(mask && { mask: Uint8Array.from((await backend.read([mask]))[0].data, (x) => (x === 0 ? 0 : 1)) }),
      ...(sinks !== undefined && { sinks }),
      ...(lower && { lower }),
      ...(scores && { by: { scores, forced, active } }),
    });
  }
  return out;
}
