import { generate } from '@kv/models';
import { parsePolicy } from '@kv/policies';
import { expect } from 'vitest';
import { gpuTests } from './device.ts';
import { both, fixture, onDevice, said } from './sequences.ts';

const gpuTest = await gpuTests();

gpuTest(
  'CIS by hidden states, which a layer reads, runs on the device alone and answers what the host answers',
  (gpu) =>
    both(gpu, fixture('llama'), async (host, device) => {
      const policy = parsePolicy(
        'view(queryKeyProducts ∘ mandatory(sinks=2,recent=4) ∘ topK ∘ cis(compare=hidden,threshold=0.1,block=3,sinks=2,local=4),budget=16)',
      );
      const options = { ids: Array.from({ length: 32 }, (_, i) => (i * 37 + 11) % 64), policy, maxNewTokens: 9 },
        want = await generate(host, options),
        got = await onDevice(gpu, device, options, () => 0),
        plain = await generate(host, {
          ...options,
          policy: parsePolicy(
            'view(queryKeyProducts ∘ mandatory(sinks=2,recent=4) ∘ topK ∘ cis(threshold=2,block=3,sinks=2,local=4),budget=16)',
          ),
          logits: 9,
        });
      expect(got.tokens).toEqual(want.tokens);
      expect(said(got.report)).toEqual(said(want.report));
      // some queries reuse a set
      const { logits } = await generate(host, { ...options, logits: 9 });
      expect(logits).not.toEqual(plain.logits);
    }),
);
gpuTest('HShare, heads and layers sharing, runs on the device alone and answers what the host answers', (gpu) =>
  both(gpu, fixture('llama'), async (host, device) => {
    const policy = parsePolicy(
      'view(heavyChannelProducts(channels=4,window=1) ∘ mandatory(sinks=2,recent=4) ∘ topK ∘ sharedSets(query=2,heads=0.5,layers=0.5,measure=2,sinks=2,local=4),budget=16)',
    );
    const options = { ids: Array.from({ length: 32 }, (_, i) => (i * 37 + 11) % 64), policy, maxNewTokens: 6 },
      want = await generate(host, options),
      got = await onDevice(gpu, device, options, () => 0);
    expect(got.tokens).toEqual(want.tokens);
    expect(said(got.report)).toEqual(said(want.report));
  }),
);
