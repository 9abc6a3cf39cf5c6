import { expect, it } from 'vitest';
import { startMeter } from '../src/meter.ts';
import type { Progress } from '../src/meter.ts';

/** Returns a meter with a clock that the test moves, and its last report. */
function metered(total: number): {
  readonly came: (seconds: number, bytes: number) => Progress | undefined;
  readonly had: (bytes: number) => void;
} {
  let now = 0,
    said: Progress | undefined;
  const meter = startMeter(
    total,
    (progress) => {
      said = progress;
    },
    () => now,
  );
  return {
    had: meter.had,
    came: (seconds, bytes) => {
      said = undefined;
      now += 1000 * seconds;
      meter.came('x', bytes);
      return said;
    },
  };
}

it('counts what was there as done and not as speed', () => {
  const meter = metered(1000);
  meter.had(500);
  expect(meter.came(1, 100)).toEqual({ file: 'x', done: 600, total: 1000, bytesPerSecond: 100, secondsLeft: 4 });
});
it('measures the last 5 s', () => {
  const meter = metered(10_000);
  for (let i = 0; i < 10; i++) meter.came(1, 10);
  for (let i = 0; i < 5; i++) meter.came(1, 500);
  expect(meter.came(1, 500)).toMatchObject({ bytesPerSecond: 500, done: 3100, secondsLeft: 13.8 });
});
it('speaks at most ten times a second, but always at the end', () => {
  const meter = metered(100);
  expect(meter.came(0.2, 10)).toBeDefined();
  expect(meter.came(0.05, 10)).toBeUndefined();
  expect(meter.came(0.06, 10)).toBeDefined();
  expect(meter.came(0, 70)).toMatchObject({ done: 100, secondsLeft: 0 });
});
it('goes back where a server made us start over', () => {
  const meter = metered(100);
  meter.came(1, 60);
  expect(meter.came(1, -60)).toMatchObject({ done: 0, bytesPerSecond: 30 });
});
