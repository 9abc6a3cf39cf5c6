import type { RunOptions } from './experiment.ts';

/**
 * Wraps runners to measure the seconds a job took, divided by `size`, since that many jobs run at once. The first job
 * of each runner is first run once untimed, to load the model and warm up the code.
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
    seconds: (job) => took.get(job)! / size, // called only for jobs that have run
  };
}
