import { generate } from '@kv/models';
import { parsePolicy } from '@kv/policies';
import { expect } from 'vitest';
import { gpuTests } from './device.ts';
import { both, fixture, said } from './sequences.ts';

const gpuTest = await gpuTests();
/** Ids none of which comes twice: equal tokens have keys that score the same. */
const ids = Array.from({ length: 40 }, (_, i) => (i * 37 + 11) % 64);

gpuTest(
  'one policy reads the prompt and another decodes on the device as on the host: a share that grows, values merged by a coin',
  (gpu) =>
    both(gpu, fixture('llama'), async (host, device) => {
      const under = {
        ids,
        policy: parsePolicy('streaming(sinks=2)'),
        budget: 24,
        decodePolicy: parsePolicy('tova ∘ perLayer ∘ topK ∘ cam(slots=4,most=3)'),
        decodeBudget: '40%' as const,
        every: 3,
        maxNewTokens: 8,
      };
      const [want, got] = [await generate(host, under), await generate(device, under)];
      expect(got.tokens).toEqual(want.tokens);
      expect(said(got.report)).toEqual(said(want.report));
      expect(got.report).toMatchObject({
        policy: 'streaming(sinks=2) ∘ topK',
        decodePolicy: 'tova ∘ perLayer ∘ topK ∘ cam(slots=4,most=3)',
        budget: 18,
      });
    }),
);
gpuTest('layers that are lazy, heads that stream and slots above a bar are the same sets on the device', (gpu) =>
  both(gpu, fixture('llama'), async (host, device) => {
    for (const text of [
      'streaming(sinks=2) ∘ simlayerkv(threshold=0.4,sinks=2,recent=12,last=1) ∘ topK',
      'tova ∘ threshold(at=0.02,window=4) ∘ topK',
      'h2o(recent=2) ∘ fixedBudgets(shares=2/1) ∘ chunks(size=8) ∘ quota',
    ]) {
      const options = { ids, policy: parsePolicy(text), budget: 16, maxNewTokens: 2 },
        [got, want] = [(await generate(device, options)).report, (await generate(host, options)).report];
      expect([got.kept, got.spans]).toEqual([want.kept, want.spans]);
      expect(want.spans !== undefined).toBe(text.includes('chunks'));
    }
  }),
);
