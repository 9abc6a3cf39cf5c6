import { compile } from '@kv/core/engine';
import { loadModel, Sequence } from '@kv/models';
import type { Model } from '@kv/models';
import { parsePolicy, policyNames, recommendedPolicies } from '@kv/policies';
import { heldOutBook } from '@kv/tasks';
import { beforeAll, describe, expect, it } from 'vitest';
import { sharesPrefill } from '../src/choose/run-text.ts';

let model: Model, ids: readonly number[];
beforeAll(async () => {
  model = await loadModel('embedded');
  ids = model.tokenizer.encode((await heldOutBook()).slice(5000, 9000)).ids.slice(0, 200);
});

const texts = [...new Set([...policyNames, ...recommendedPolicies.map(({ policy }) => policy)])];

describe('forks', () => {
  it('explore', async () => {
    const policies = texts.map((t) => parsePolicy(t));
    const whole = new Sequence(model);
    await whole.prefill(ids, { policies: policies.filter((p) => sharesPrefill(compile(p))) });
    for (const [i, policy] of policies.entries()) {
      const compiled = compile(policy);
      let alone: unknown, fork: unknown;
      try {
        const s = new Sequence(model);
        await s.prefill(ids, { policy, budget: '50%' });
        alone = JSON.stringify(s.kept());
      } catch (e) { alone = String(e); }
      try {
        const f = whole.fork();
        await f.evict(policy, '50%');
        fork = JSON.stringify(f.kept());
      } catch (e) { fork = String(e); }
      console.log(texts[i].padEnd(40), sharesPrefill(compiled) ? 'shares' : 'own   ', alone === fork ? 'equal' : `DIFFERENT ${String(alone).slice(0, 150)} ||| ${String(fork).slice(0, 150)}`);
    }
  }, 300_000);
});
