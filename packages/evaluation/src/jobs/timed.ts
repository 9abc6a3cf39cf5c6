import type { RunOptions } from './experiment.ts';

/**
 * The same runners, and the seconds that a job took, as a share of all of them: so many jobs run at once. The first job
 * of each is run once more before, untimed: it waits for the model, and for code that is not compiled yet.
 */
export function withTimes<J, R>(
  { start, size = 1 }: Pick<RunOptions<J, R>, 'start' | 'size'>,
  now: () => number = () => performance.now(),
): Required<Pick<RunOptions<J, R>, 'start' | 'size'>> & { readonly seconds: (job: J) => number } {
  const took = new Map<J, number>();
  return {
    size,
    start(work) {
      const runner = start(work);
      let warm: Promise<unknown> | undefined;
      return {
        stop: () => runner.stop(),
        async run(job) {
          await (warm ??= runner.run(job));
          const started = now(),
            result = await runner.run(job);
          took.set(job, (now() - started) / 1000);
          return result;
        },
      };
    },
    seconds: (job) => took.get(job)! / size, // asked of jobs that were run
  };
}
