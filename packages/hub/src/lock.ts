import { randomUUID } from 'node:crypto';
import { mkdir, readFile, rename, rm, link, stat, utimes, writeFile } from 'node:fs/promises';
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

/**
 * Runs `work` while no other process does under the same lock file. A holder that died is noticed by watching that the
 * file is no longer touched, which compares no clocks.
 * Two holders after a lost race are harmless: both write the same bytes to the same places, and check them.
 */
export async function withLock<T>(
  path: string,
  signal: AbortSignal | undefined,
  onWait: (() => void) | undefined,
  work: () => Promise<T>,
  { beatMs, pollMs, staleMs }: LockTimes = TIMES,
): Promise<T> {
  const mine = `${process.pid} ${randomUUID()}\n`;
  await mkdir(dirname(path), { recursive: true });
  for (let seen: string | undefined, since = 0, waited = false; !(await create(path, mine)); ) {
    signal?.throwIfAborted();
    const now = await look(path);
    if (now !== seen) [seen, since] = [now, performance.now()];
    else if (now !== undefined && performance.now() - since > staleMs) await takeAway(path, now);
    if (!waited) onWait?.();
    waited = true;
    await pause(pollMs, signal);
  }
  const beat = setInterval(() => void utimes(path, new Date(), new Date()).catch(() => {}), beatMs);
  try {
    return await work();
  } finally {
    clearInterval(beat);
    if ((await readFile(path, 'utf8').catch(() => '')) === mine) await rm(path, { force: true });
  }
}

const create = (path: string, text: string): Promise<boolean> =>
  writeFile(path, text, { flag: 'wx' }).then(
    () => true,
    (error: NodeJS.ErrnoException) => {
      if (error.code === 'EEXIST') return false;
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
