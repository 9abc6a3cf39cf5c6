import { randomUUID } from 'node:crypto';
import { link, mkdir, readFile, rename, rm, stat, utimes, writeFile } from 'node:fs/promises';
import { hostname } from 'node:os';
import { dirname } from 'node:path';
import { pause } from './retry.ts';

/**
 * How often the holder touches its lock, how often others look, and after how long without a touch it is taken over.
 */
interface LockTimes {
  readonly beatMs: number;
  readonly pollMs: number;
  readonly staleMs: number;
}
const TIMES: LockTimes = { beatMs: 2000, pollMs: 200, staleMs: 10_000 };

/** How a lock is waited for. */
export interface LockOptions {
  /** Ends the wait. */
  readonly signal?: AbortSignal | undefined;
  /** Called once where another process holds it. */
  readonly onWait?: (() => void) | undefined;
  /** @defaultValue touched every 2 s, looked at every 200 ms, taken over after 10 s */
  readonly times?: LockTimes;
}

/**
 * Waits until no other process holds the lock file, and takes it; the result gives it back. The lock of a process of
 * this machine that is gone is taken over at once. Any other is when it is no longer touched, which compares no clocks.
 * Two may hold it after a lost race, or where one was suspended: what they do has to stay right then.
 * @throws the signal's reason once it is aborted; what the file system says where the file cannot be written
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

/** Runs `work` while no other process does under the same lock file. */
export async function withLock<T>(path: string, options: LockOptions, work: () => Promise<T>): Promise<T> {
  const release = await acquireLock(path, options);
  try {
    return await work();
  } finally {
    await release();
  }
}

/** Whether the holder that was seen was a process of this machine that is no longer there. */
function isGone(seen: string): boolean {
  const [, pid, , host] = seen.trimEnd().split(' ');
  if (host !== hostname()) return false;
  try {
    process.kill(Number(pid), 0); // signal 0 only asks
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

/** Who holds it and when it was touched. */
const look = (path: string): Promise<string | undefined> =>
  Promise.all([readFile(path, 'utf8'), stat(path)]).then(
    ([text, { mtimeMs }]) => `${mtimeMs} ${text}`,
    () => undefined,
  );

/** Removes the lock that was seen; if another has come in its place meanwhile, that one goes back. */
async function takeAway(path: string, seen: string): Promise<void> {
  const away = `${path}.${randomUUID()}`;
  try {
    await rename(path, away);
    if ((await look(away)) !== seen) await link(away, path);
  } catch {
    // Someone else was faster.
  } finally {
    await rm(away, { force: true });
  }
}
