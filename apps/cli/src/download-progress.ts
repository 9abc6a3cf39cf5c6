import { bytesText } from '@kv/core/shared';
import type { DownloadPlan, Progress } from '@kv/hub';
import cliProgress from 'cli-progress';
import { plain } from './plain.ts';
import { duration } from './progress.ts';
import type { Stream } from './terminal.ts';

/** Reports the progress of a download. */
interface Download {
  /** Says what is about to be downloaded. */
  plan(plan: DownloadPlan): void;
  step(progress: Progress): void;
  /** Call if another process is downloading the same file. */
  wait(): void;
  stop(): void;
}

/** Seconds between two plain lines. */
const EVERY_S = 10;

/**
 * Shows a bar with speed and time left on a terminal, a line every `EVERY_S` seconds elsewhere; nothing if nothing has
 * to be downloaded.
 */
export function startDownload(stderr: Stream, model: string, now: () => number = () => performance.now()): Download {
  const name = plain(model);
  const wait = (): void => void stderr.write(`model: another process is downloading ${name}, waits for it\n`),
    plan = ({ total, here, license }: DownloadPlan): void => {
      const rest = here === 0 ? '' : ` (${bytesText(here)} are here already)`;
      stderr.write(
        `model: downloading ${name}, ${bytesText(total)}${rest}, ${license === undefined ? 'which names no licence' : `licence ${license}`}, once, into the Hugging Face cache\n`,
      );
    };
  return { ...(stderr.isTTY ? bar(stderr) : lines(stderr, name, now)), plan, wait };
}

function bar(stderr: Stream): Pick<Download, 'step' | 'stop'> {
  let shown: InstanceType<typeof cliProgress.SingleBar> | undefined;
  return {
    step(progress) {
      const payload = { file: plain(progress.file), far: far(progress) };
      if (shown) shown.update(progress.done, payload);
      else {
        shown = new cliProgress.SingleBar(
          {
            stream: stderr as NodeJS.WriteStream,
            format: '{bar} {far}  {file}',
            barsize: 30,
            hideCursor: true,
            clearOnComplete: true,
            gracefulExit: false,
          },
          cliProgress.Presets.shades_classic,
        );
        shown.start(progress.total, progress.done, payload);
      }
    },
    stop: () => shown?.stop(),
  };
}

function lines(stderr: Stream, name: string, now: () => number): Pick<Download, 'step' | 'stop'> {
  let told = now(),
    whole = false;
  return {
    step(progress) {
      whole ||= progress.done === progress.total;
      if (now() - told < 1000 * EVERY_S) return;
      stderr.write(`model: ${far(progress)}\n`);
      told = now();
    },
    stop() {
      if (whole) stderr.write(`model: ${name} is in the Hugging Face cache\n`);
    },
  };
}

/** Formats progress: "120 MiB of 257 MiB, 11.2 MiB/s, 12 s left". */
function far({ done, total, bytesPerSecond, secondsLeft }: Progress): string {
  const speed = bytesPerSecond === undefined ? '' : `, ${bytesText(bytesPerSecond)}/s`;
  return `${bytesText(done)} of ${bytesText(total)}${speed}${secondsLeft === undefined ? '' : `, ${duration(secondsLeft)} left`}`;
}
