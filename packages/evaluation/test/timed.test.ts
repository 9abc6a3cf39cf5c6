import { expect, it } from 'vitest';
import { withTimes } from '../src/jobs/timed.ts';
import type { OwnWork } from '../src/index.ts';

const work = { kind: 'cell jobs' } as OwnWork;

it('counts what jobs take once their runner is warm, as a share of all runners', async () => {
  let clock = 0;
  const loading = 100_000,
    cold = (): { run: (job: { readonly ms: number }) => Promise<number>; stop: () => Promise<void> } => {
      let ran = 0;
      return {
        run: async ({ ms }) => {
          clock += ms + (ran++ === 0 ? loading : 0);
          return ms;
        },
        stop: async () => {},
      };
    },
    jobs = [{ ms: 500 }, { ms: 3000 }, { ms: 1000 }];
  for (const size of [1, 4]) {
    const { start, seconds } = withTimes<(typeof jobs)[number], number>({ start: cold, size }, () => clock),
      runner = start(work);
    for (const job of jobs) expect(await runner.run(job)).toBe(job.ms);
    expect(jobs.map(seconds)).toEqual([0.5 / size, 3 / size, 1 / size]);
  }
});
