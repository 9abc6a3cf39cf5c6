import { median } from '../lib/spread.mjs';

/** Waits until the device has finished everything recorded. */
export const done = (gpu) => gpu.scope(({ commands, read }) => read([commands.make([1])]));

/**
 * Returns the seconds of one call of `record`, which records work: it is repeated until `least` seconds pass between
 * the first call and the end of the work, and the median of `turns` is taken. Work recorded before one submit is waited
 * for once, so the round trip is negligible.
 */
export async function secondsOf(gpu, record, { least = 0.3, turns = 5 } = {}) {
  const run = async (times) => {
    const started = performance.now();
    for (let i = 0; i < times; i++) record(i);
    await done(gpu);
    return (performance.now() - started) / 1000;
  };
  await run(1); // compiles
  let times = 1,
    took = await run(times);
  while (took < least && times < 2 ** 16)
    took = await run((times = Math.ceil(times * Math.min(16, Math.max(2, (1.2 * least) / took)))));
  const all = [];
  for (let turn = 0; turn < turns; turn++) all.push((await run(times)) / times);
  return { seconds: median(all), lowest: Math.min(...all), highest: Math.max(...all), times };
}
