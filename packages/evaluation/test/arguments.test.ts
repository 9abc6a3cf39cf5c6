import { KvError } from '@kv/core';
import { loadModel } from '@kv/models';
import { parsePolicy, policy } from '@kv/policies';
import fc from 'fast-check';
import { expect, test } from 'vitest';
import { choose } from '../src/choose.ts';
import { fitGate } from '../src/gate.ts';

const wrong = fc.constantFrom(undefined, null, true, NaN, 'text', {}, Promise.resolve(1), () => 1, new Map());

test.each<[string, (x: never, y: never, z: never) => unknown]>([
  ['choose', choose],
  ['fitGate', fitGate],
  ['policy', (text) => policy(text)],
  ['parsePolicy', (text) => parsePolicy(text)],
])('%s refuses a wrong argument in one sentence', async (name, call) => {
  const model = await loadModel('embedded'),
    right = fc.boolean();
  await fc.assert(
    fc.asyncProperty(right, wrong, wrong, wrong, async (loaded, x, y, z) => {
      const error = await Promise.resolve()
        .then(() => call((loaded && !name.startsWith('p') ? model : x) as never, y as never, z as never))
        .then(
          () => undefined,
          (cause: unknown) => cause,
        );
      expect(error).toBeInstanceOf(KvError);
      expect((error as KvError).message).not.toContain('\n');
    }),
    { numRuns: 60 },
  );
});
