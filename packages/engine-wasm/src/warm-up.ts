import { compose, keys, scorer, selector } from '@kv/core';
import { cpu } from '@kv/cpu';
import { compile, StepCache, runEvent, readDecisions } from '@kv/core/engine';
import type { EventLayer } from '@kv/core/engine';

/** A scorer with the calls that most pieces make. */
const usual = scorer('usual', { needs: [keys] }, ({ ops, at, keys: k }) => {
  const h = ops.simplex(ops.exp(ops.norm(k)));
  const o = ops.matmul(h, k);
  const error = ops.mul(ops.odds(h), ops.add(ops.distance(o, k), ops.dot(o, k)));
  const pooled = ops.pool(ops.softmax(error), { kernel: 3, kind: 'mean', except: 1 });
  const scores = ops.div(ops.groupRows('mean', pooled, at.kvHeads), ops.add(1, ops.sum(pooled)));
  return { scores, forced: ops.union(ops.less(pooled, 0), ops.lastSlots(pooled, 1)) };
});
const best = selector('best', {}, ({ ops, scores, budgets, ...masks }) => ops.select(scores, budgets, masks));

/**
 * Runs one event over two layers of a few zeros, so that V8 has compiled the common calls before the first real event,
 * which would take half as long again. Meant to run while other threads start.
 */
export async function warmUp(): Promise<void> {
  const [kvHeads, slots, headDim] = [2, 32, 8],
    shape = [kvHeads, slots, headDim],
    k = cpu.ops.from({ data: new Float32Array(kvHeads * slots * headDim), shape }),
    known = new StepCache();
  const layers = [0, 1].map(
    (layer): EventLayer => ({
      at: {
        ...{ layer, layers: 2, queryHeads: kvHeads, kvHeads, headDim, selectRows: kvHeads },
        ...{ step: 0, slots, length: slots, promptLength: slots, budget: 8, aligned: true },
      },
      budgets: [8, 8],
      stepCache: known,
      read: () => k,
    }),
  );
  await readDecisions(cpu, layers, runEvent(compile(compose(usual(), best())), layers, cpu.ops));
}
