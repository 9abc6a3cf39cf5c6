import { generate, Sequence } from '@kv/models';
import { parsePolicy } from '@kv/policies';
import { expect } from 'vitest';
import { gpuTests } from './device.ts';
import { both, fixture } from './sequences.ts';

const gpuTest = await gpuTests();
/** Ids none of which comes twice: equal tokens have keys that score the same. */
const ids = Array.from({ length: 40 }, (_, i) => (i * 37 + 11) % 64);
const spans = [
  [5, 9],
  [20, 23],
] as const;

gpuTest('protected positions stay on the device as on the host, at every event', (gpu) =>
  both(gpu, fixture('llama'), async (host, device) => {
    for (const text of ['streaming(sinks=1)', 'knorm ∘ chunks(size=4) ∘ wholeUnits']) {
      const options = {
          ids,
          policy: parsePolicy(text),
          budget: 16,
          protect: spans,
          maxNewTokens: 5,
          block: 16,
          every: 2,
        },
        [want, got] = [await generate(host, options), await generate(device, options)];
      expect([text, got.tokens, got.report.kept]).toEqual([text, want.tokens, want.report.kept]);
      for (const row of got.report.kept.flat())
        for (const [from, to] of spans)
          for (let p = from; p < to; p++) expect([text, row]).toEqual([text, expect.arrayContaining([p])]);
    }
    const sequence = new Sequence(device);
    sequence.protect([...spans]);
    await sequence.prefill(ids, { policy: 'knorm', budget: 12 });
    await sequence.evict('streaming(sinks=1)', 9);
    expect(
      sequence
        .kept()
        .flat()
        .every((row) => [5, 8, 20, 22].every((p) => row.includes(p))),
    ).toBe(true);
    expect(() => sequence.protect([[10, 12]])).toThrow('got some that were evicted');
    sequence.destroy();
    await expect(generate(device, { ids, policy: 'knorm', budget: 6, protect: spans })).rejects.toThrow(
      '7 positions are protected, and each KV head has a budget of 6 slots',
    );
  }),
);
