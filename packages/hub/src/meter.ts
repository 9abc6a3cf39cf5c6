/** Progress of a download, over all its files. */
export interface Progress {
  /** The file being downloaded. */
  readonly file: string;
  /** Bytes that are here, including those of earlier attempts. */
  readonly done: number;
  /** Bytes of all files. */
  readonly total: number;
  /** Speed over the last seconds; undefined until it can be measured. */
  readonly bytesPerSecond: number | undefined;
  /** Estimated seconds until the end; undefined before there is a speed. */
  readonly secondsLeft: number | undefined;
}

/** Counts bytes. */
export interface Meter {
  /** Adds bytes of an earlier attempt: they count as done, not as speed. */
  had(bytes: number): void;
  /** Adds downloaded bytes; negative if a server made the download start over. */
  came(file: string, bytes: number): void;
}

const EVERY_MS = 100,
  WINDOW_MS = 5000;

/** Returns a meter that reports at most every 100 ms, and at the end. Speed is that of the last 5 s. */
export function startMeter(
  total: number,
  report: ((progress: Progress) => void) | undefined,
  now: () => number = () => performance.now(),
): Meter {
  let done = 0,
    fresh = 0,
    said = -Infinity;
  const marks: { readonly at: number; readonly fresh: number }[] = [{ at: now(), fresh: 0 }];
  return {
    had: (bytes) => {
      done += bytes;
    },
    came(file, bytes) {
      done += bytes;
      fresh += Math.max(0, bytes);
      const at = now();
      if (at - said < EVERY_MS && done < total) return;
      said = at;
      marks.push({ at, fresh });
      while (marks.length > 2 && at - marks[1].at >= WINDOW_MS) marks.shift();
      const seconds = (at - marks[0].at) / 1000,
        bytesPerSecond = seconds > 0 ? (fresh - marks[0].fresh) / seconds : undefined;
      report?.({
        file,
        done,
        total,
        bytesPerSecond,
        secondsLeft: bytesPerSecond ? (total - done) / bytesPerSecond : undefined,
      });
    },
  };
}
