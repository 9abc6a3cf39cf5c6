import cliProgress from 'cli-progress';
import type { Stream } from './terminal.ts';

/** Reports the progress of a run. */
export interface ProgressLine {
  step(): void;
  stop(): void;
}

/** Seconds between two plain lines. */
const EVERY_S = 10;

/**
 * Shows a bar with the time left on a terminal, a line every `EVERY_S` seconds elsewhere. `done` of `total` were
 * finished before.
 */
export function startProgress(
  what: string,
  stderr: Stream,
  total: number,
  done: number,
  now: () => number = () => performance.now(),
): ProgressLine {
  const started = now();
  let at = done,
    said = started;
  const left = (): string => (at === done ? '…' : duration(((now() - started) / 1000 / (at - done)) * (total - at)));
  if (stderr.isTTY) {
    const bar = new cliProgress.SingleBar(
      {
        stream: stderr as NodeJS.WriteStream,
        format: '{bar} {value} of {total} jobs, {left} left',
        barsize: 30,
        hideCursor: true,
        clearOnComplete: true,
        gracefulExit: false,
        stopOnComplete: false,
      },
      cliProgress.Presets.shades_classic,
    );
    bar.start(total, done, { left: '…' });
    // Counts down the time left between two jobs.
    const tick = setInterval(() => bar.update(at, { left: left() }), 1000);
    return {
      step: () => bar.update(++at, { left: left() }),
      stop: () => {
        clearInterval(tick);
        bar.stop();
      },
    };
  }
  stderr.write(`${what}: ${done} of ${total} jobs are done\n`);
  return {
    step() {
      at++;
      if (now() - said < 1000 * EVERY_S && at < total) return;
      said = now();
      stderr.write(`${what}: ${at} of ${total} jobs${at < total ? `, ${left()} left` : ''}\n`);
    },
    stop() {},
  };
}

/** Formats seconds: 75 as 1 min 15 s. */
export function duration(seconds: number): string {
  const whole = Math.round(seconds);
  return whole < 60 ? `${whole} s` : `${Math.floor(whole / 60)} min ${String(whole % 60).padStart(2, '0')} s`;
}
