import { expect, test, vi } from 'vitest';
import { scorer, selector, weigher, keys, shaper, positions } from '@kv/core';
import type { Ops, Tensor } from '@kv/core';
let flip = 0;
const mutants: Record<string, (p: any) => void> = {
  good: () => {},
  'topK drops forced': (p) => { p.topK.make = () => selector('topK', [], ({ ops, scores, budgets }) => ops.select(scores, budgets)); },
  'topK one more': (p) => { p.topK.make = () => selector('topK', [], ({ ops, scores, budgets, forced, banned }) => ops.select(scores, ops.add(budgets, 1), { forced, banned })); },
  'topK one less': (p) => { p.topK.make = () => selector('topK', [], ({ ops, scores, budgets, forced, banned }) => ops.select(scores, ops.sub(budgets, 1), { forced, banned })); },
  'knorm NaN': (p) => { p.knorm.make = () => scorer('knorm', [keys], ({ ops, keys: k }) => ops.div(ops.sub(ops.norm(k), ops.norm(k)), 0)); },
  'knorm other each time': (p) => { p.knorm.make = () => scorer('knorm', [keys], ({ ops, keys: k }) => ops.mul(ops.norm(k), Math.sin(++flip * 7))); },
  'mandatory bans what it forces': (p) => { p.mandatory.make = () => shaper({ name: 'mandatory', floor: 2 }, [positions], ({ ops, scores, positions: x }) => ({ scores, forced: ops.less(x, 2), banned: ops.less(x, 2) })); },
  'branchDissolution of slots by type': (p) => { const m = p.branchDissolution.make; p.branchDissolution.make = (o: any) => ({ ...m(o), from: ['scores', 'weights', 'units'] }); },
  'streaming weights below 0': (p) => { p.streaming.make = () => weigher('streaming', [keys], ({ ops, keys: k }) => ops.sub(0, ops.norm(k))); },
};
test.each(Object.entries(mutants))('%s', async (name, mutate) => {
  vi.resetModules();
  const { pieces } = await import('../src/index.ts');
  mutate(pieces);
  const { covering } = await import('./free/cover.ts'), { decide, judge } = await import('./free/laws.ts'), { sceneOf } = await import('./free/scenes.ts');
  let said = ''; const { rows } = covering(2); let n = 0;
  for (const [i, row] of rows.entries()) { const on = sceneOf(i); try { const a = await decide(row, on); judge(row, on, a); expect(await decide(row, on)).toEqual(a); } catch (e) { n++; said ||= String(e).slice(0, 260); } }
  console.log(name, n, 'of', rows.length, said);
});
