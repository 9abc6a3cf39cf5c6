import { compile } from '@kv/core/engine';
import type { FileBudget } from '../src/cells/types.ts';
import { inTurn } from '@kv/model-testing/in-turn';
import { loadModel, Sequence } from '@kv/models';
import { policy, recommendedPolicies } from '@kv/policies';
import { expect, test } from 'vitest';
import { candidatesOf, SHARES } from '../src/choose/candidates.ts';
import type { CandidateOptions } from '../src/choose/candidates.ts';
import { priceOf } from '../src/choose/price.ts';

const model = await loadModel('embedded'),
  text = 'The wide river was old. A boy told his friend that the code is: XK7M9P2Q. Rain would come before noon. ',
  { ids } = model.tokenizer.encode(text.repeat(3)),
  form = 'q8';
const candidates = (budgets: readonly FileBudget[], more: Partial<CandidateOptions> = {}) =>
  candidatesOf(model, { lengths: [ids.length], form, budgets, most: 90, ...more });

test('candidates are policies that run, each once, and their caches have at most the bytes that were predicted', async () => {
  const { candidates: all, left } = await candidates(['25%']),
    labels = all.map((one) => compile(policy(one.policy)).label);
  expect(all).toHaveLength(90);
  expect(new Set(labels).size).toBe(all.length);
  expect(left.map((one) => one.policy)).toEqual(expect.arrayContaining(['full', 'quest']));
  for (const one of inTurn(all, 8)) {
    const sequence = new Sequence(model, undefined, { cache: form });
    await sequence.prefill(ids, { policy: policy(one.policy), budget: one.budget });
    const { liveBytes } = sequence.memory.cache;
    sequence.destroy();
    expect(liveBytes, one.policy).toBeLessThanOrEqual(one.bytes);
    expect(liveBytes, one.policy).toBeGreaterThan(one.bytes / 2);
  }
});

test('a budget that holds the full cache is refused in a sentence', async () => {
  for (const budget of ['100%', ids.length, 2 * ids.length, '64MiB'] as const)
    await expect(candidates([budget])).rejects.toThrow(
      `budget: expected less than the full cache, got ${budget}, which holds all ${ids.length} tokens of the longest prompt in ${form}: nothing need be dropped`,
    );
  await expect(candidates([ids.length - 1])).resolves.toMatchObject({ left: expect.anything() });
});

test('equal shares are equal memory: what stores slots in fewer bytes keeps more of them', async () => {
  const { candidates: all } = await candidates(['25%']),
    [coarse, moved] = [/levels/, /finch|Rerotated/].map((of) => all.filter((one) => of.test(one.policy)));
  const most = Math.max(...all.map(({ bytes }) => bytes));
  for (const one of coarse!) {
    expect(one).toMatchObject({ budget: `25% of ${form}` });
    expect(one.share).toBeGreaterThan(0.26);
  }
  for (const one of moved!) expect(one.share).toBeLessThan(0.24);
  expect([coarse!.length, moved!.length]).not.toContain(0);
  // what left takes bytes as well
  const { config } = model,
    [plain, folded, refits] = ['', ' | moments(stretches=1,cross=false)', ' | fit'].map(
      (hook) => priceOf(`knorm | topK${hook}`, '50%', config, [ids.length], form)!,
    );
  expect(folded).toMatchObject({ budget: `50% of ${form}` });
  expect(folded!.share).toBeLessThan(plain!.share);
  expect(folded!.bytes).toBeLessThanOrEqual(1.02 * plain!.bytes);
  expect(refits!.cost).toBeGreaterThan(plain!.cost);
  expect(Math.min(...all.map(({ bytes }) => bytes))).toBeGreaterThan(0.8 * most);
});

test('bytes are never exceeded, and a share too small for what a policy forces leaves it out, with the reason', async () => {
  const budget = '64KiB',
    { candidates: all } = await candidates([budget]);
  expect(all.length).toBeGreaterThan(40);
  for (const { bytes, policy } of all) expect(bytes, policy).toBeLessThanOrEqual(64 * 1024);
  const { candidates: few, left } = await candidates(['2%']);
  expect(few.some((one) => one.policy === 'snapkv')).toBe(false);
  expect(left).toContainEqual({ policy: 'snapkv', why: expect.stringContaining('forces more slots') });
});

test('where the budget is sought every policy has several, and what demotes slots also keeps them all', async () => {
  const { candidates: all } = await candidates(SHARES, { most: 80 }),
    budgets = (of: RegExp): Set<unknown> => new Set(all.filter((one) => of.test(one.policy)).map((one) => one.budget));
  expect([...budgets(/^knorm/)]).toEqual(SHARES);
  expect(budgets(/levels/)).toContain('100%');
  expect(budgets(/^(?!.*levels)/)).not.toContain('100%');
});

test('the same seed draws the same policies, another one others; both know the recommended ones first', async () => {
  const [one, same, other] = await Promise.all(
    [3, 3, 4].map(async (seed) => (await candidates(['50%'], { seed })).candidates.map((of) => of.policy)),
  );
  expect(one).toEqual(same);
  expect(one).not.toEqual(other);
  expect(one!.slice(0, recommendedPolicies.length)).toEqual(recommendedPolicies.map((of) => of.policy));
});

test('a model without the files that a policy reads, and a device, have fewer candidates', async () => {
  const bare = { ...model, sidecar: async () => undefined },
    { left } = await candidatesOf(bare, { lengths: [ids.length], form, budgets: ['25%'] });
  expect(left).toContainEqual({ policy: 'qfilter', why: expect.stringContaining('safetensors') });
  const { left: there } = await candidates(['25%'], { device: true });
  expect(there.map(({ why }) => why)).toContain('it reads hidden states, which stay on a GPU');
});
