import { randomUUID } from 'node:crypto';
import { link, mkdir, readFile, rename, rm, stat, utimes, writeFile } from 'node:fs/promises';
import { hostname } from 'node:os';
import { dirname } from 'node:path';
import { pause } from './retry.ts';

/** Interval at which the holder touches its lock, interval at which others check, and age at which it is taken over. */
interface LockTimes {
  readonly beatMs: number;
  readonly pollMs: number;
  readonly staleMs: number;
}
const TIMES: LockTimes = { beatMs: 2000, pollMs: 200, staleMs: 10_000 };

/** Options of waiting for a lock. */
export interface LockOptions {
  /** Aborts the wait. */
  readonly signal?: AbortSignal | undefined;
  /** Called once if another process holds the lock. */
  readonly onWait?: (() => void) | undefined;
  /** Times of the lock. @defaultValue touched every 2 s, checked every 200 ms, taken over after 10 s */
  readonly times?: LockTimes;
}

/**
 * Waits until no other process holds the lock file, and takes it; the result releases it. The lock of an ended process
 * of this machine is taken over at once, any other once it is no longer touched, which compares no clocks. Two
 * processes may hold it after a lost race or a suspension, so the work must be correct even then.
 * @throws the signal's reason when aborted; the file system's error if the file cannot be written
 */
export async function acquireLock(
  path: string,
  { signal, onWait, times: { beatMs, pollMs, staleMs } = TIMES }: LockOptions = {},
): Promise<() => Promise<void>> {
  const mine = `${process.pid} ${randomUUID()} ${hostname()}\n`;
  await mkdir(dirname(path), { recursive: true });
  for (let seen: string | undefined, since = 0, waited = false; !(await create(path, mine)); ) {
    signal?.throwIfAborted();
    const now = await look(path);
    if (now !== undefined && isGone(now)) {
      await takeAway(path, now);
      continue;
    }
    if (now !== seen) [seen, since] = [now, performance.now()];
    else if (now !== undefined && performance.now() - since > staleMs) await takeAway(path, now);
    if (!waited) onWait?.();
    waited = true;
    await pause(pollMs, signal);
  }
  const beat = setInterval(() => void utimes(path, new Date(), new Date()).catch(() => {}), beatMs);
  return async () => {
    clearInterval(beat);
    if ((await readFile(path, 'utf8').catch(() => '')) === mine) await rm(path, { force: true });
  };
}

/** Runs `work` while no other process runs under the same lock file. */
export async function withLock<T>(path: string, options: LockOptions, work: () => Promise<T>): Promise<T> {
  const release = await acquireLock(path, options);
  try {
    return await work();
  } finally {
    await release();
  }
}

/** Returns whether the observed holder was a process of this machine that has ended. */
function isGone(seen: string): boolean {
  const [, pid, , host] = seen.trimEnd().split(' ');
  if (host !== hostname()) return false;
  try {
    process.kill(Number(pid), 0); // signal 0 only tests for existence
    return false;
  } catch (error) {
    return (error as NodeJS.ErrnoException).code === 'ESRCH';
  }
}

const create = (path: string, text: string): Promise<boolean> =>
  writeFile(path, text, { flag: 'wx' }).then(
    () => true,
    async (error: NodeJS.ErrnoException) => {
      if (error.code === 'EEXIST') return false;
      if (error.syscall === 'write') await rm(path, { force: true }); // a full disk left it empty
      throw error;
    },
  );

/** Reads who holds the lock and when it was touched. */
const look = (path: string): Promise<string | undefined> =>
  Promise.all([readFile(path, 'utf8'), stat(path)]).then(
    ([text, { mtimeMs }]) => `${mtimeMs} ${text}`,
    () => undefined,
  );

/** Removes the observed lock; if another has replaced it meanwhile, restores that one. */
async function takeAway(path: string, seen: string): Promise<void> {
  const away = `${path}.${randomUUID()}`;
  try {
    await rename(path, away);
    if ((await look(away)) !== seen) await link(away, path);
  } catch {
    // Another process was faster.
  } finally {
    await rm(away, { force: true });
  }
}
