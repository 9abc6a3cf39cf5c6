import { setFlagsFromString } from 'node:v8';
import { runInNewContext } from 'node:vm';
import { expect, test } from 'vitest';
import { runAll } from '../src/jobs/run-pool.ts';

setFlagsFromString('--expose-gc');
const collect = runInNewContext('gc') as () => void;

test('runners do not hold the results of jobs that are done', async () => {
  const results: WeakRef<object>[] = [];
  let held = NaN;
  const run = async (job: number): Promise<object> => {
    await new Promise((resolve) => setImmediate(resolve));
    if (job === 20) {
      collect();
      held = results.filter((result) => result.deref() !== undefined).length;
    }
    return { job };
  };
  await runAll(
    [{ run, stop: async () => {} }],
    Array.from({ length: 20 }, (_, i) => i + 1),
    { signal: new AbortController().signal, onResult: (result) => results.push(new WeakRef(result)) },
  );
  expect(held).toBeLessThan(5); // the last ones may be in use
});
