import { test } from 'vitest';
import { scene } from '@kv/laws';
import { places, count, policyOf, labelOf } from './free/rows.ts';
import { covering } from './free/cover.ts';
import { decide, judge, Broken, isRefusal } from './free/laws.ts';
test('c', async () => {
  const { rows } = covering(2);
  const bad = new Map<string, [number, string]>();
  const specs = (i: number) => ({ layers: 2, kvHeads: 1 + i % 3, group: 1 + (i >> 1) % 3, slots: 4 + i % 9, dim: 1 + i % 4, ragged: i % 2 === 1, evicted: i % 4, budget: i % 11, weights: (['spread', 'zeros', 'ties', 'dominant', 'uniform'] as const)[i % 5]!, vectors: (['spread', 'zeros', 'same', 'long', 'grid'] as const)[(i >> 2) % 5]!, seed: i });
  const s = performance.now();
  for (const [i, row] of rows.entries()) { const on = scene(specs(i)); try { const a = await decide(row, on); judge(row, on, a); } catch (e) { const k = e instanceof Broken ? e.message.replace(/^.*?: /, '').replace(/, on.*/, '') : String(e).slice(0, 150); const c = bad.get(k) ?? [0, '']; bad.set(k, [c[0] + 1, c[1] === '' || labelOf(row).length < c[1].length ? labelOf(row) + JSON.stringify(on.spec) : c[1]]); } }
  console.log(rows.length, performance.now() - s);
  for (const [k, [n, l]] of bad) console.log(n, k, '\n      ', l);
});
