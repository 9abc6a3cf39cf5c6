import { KvError } from '@kv/core';
import { loadModel } from '@kv/models';
import { parsePolicy, policy } from '@kv/policies';
import fc from 'fast-check';
import { expect, test } from 'vitest';
import { choose } from '../src/choose.ts';
import { fitGate } from '../src/gate.ts';
import { sweepTasks } from '../src/sweep/sweep.ts';

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

test('a task that is no file says what a task may be', async () => {
  for (const [task, near] of [
    ['needle', 'there are niah_single_1, '],
    ['chian', 'did you mean chain'],
  ] as const)
    await expect(
      sweepTasks(
        { tasks: [task] } as unknown as Parameters<typeof sweepTasks>[0],
        '/tmp/sweep.json',
        undefined as never,
      ),
    ).rejects.toThrow(
      new RegExp(`^tasks: expected a file of problems, or one that is made, such as .*${near}.*, got "${task}"$`),
    );
});
