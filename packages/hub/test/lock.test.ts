import { spawn, spawnSync } from 'node:child_process';
import { writeFileSync } from 'node:fs';
import { hostname } from 'node:os';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { build } from 'esbuild';
import { afterAll, beforeAll, beforeEach, describe, expect, it } from 'vitest';
import { withLock } from '../src/lock.ts';
import { slow, times } from './faults.ts';
import { below, bytes, cache, CHECKPOINT, envOf, fetchFrom, holds, single } from './model.ts';
import { startHub } from './server.ts';
import type { FakeHub } from './server.ts';

const QUICK = { beatMs: 20, pollMs: 5, staleMs: 200 };
const sleep = (ms: number): Promise<void> => new Promise((done) => setTimeout(done, ms));

describe('a lock', () => {
  it('lets one in at a time, and is gone afterwards', async () => {
    const path = join(cache(), 'a/kv.lock');
    let inside = 0,
      most = 0,
      waited = 0;
    await Promise.all(
      Array.from({ length: 8 }, () =>
        withLock(path, { onWait: () => waited++, times: QUICK }, async () => {
          most = Math.max(most, ++inside);
          await sleep(10);
          inside--;
        }),
      ),
    );
    expect([most, waited, below(join(path, '..'))]).toEqual([1, 7, []]);
  });
  it('holds for as long as the work takes', async () => {
    const path = join(cache(), 'kv.lock'),
      order: string[] = [];
    await Promise.all([
      withLock(path, { times: QUICK }, async () => {
        await sleep(600);
        order.push('first');
      }),
      sleep(20).then(() =>
        withLock(path, { times: QUICK }, async () => {
          order.push('second');
        }),
      ),
    ]);
    expect(order).toEqual(['first', 'second']);
  });
  it('of a process that died is taken over, not before its time', async () => {
    const path = join(cache(), 'kv.lock');
    writeFileSync(path, '1 dead\n');
    const started = performance.now();
    expect(await withLock(path, { times: QUICK }, async () => 'in')).toBe('in');
    expect(performance.now() - started).toBeGreaterThan(QUICK.staleMs);
  });
  it('of a process of this machine that is gone is taken over at once, of another machine not', async () => {
    const { pid } = spawnSync(process.execPath, ['-e', '']);
    for (const [host, atOnce] of [
      [hostname(), true],
      [`not ${hostname()}`, false],
    ] as const) {
      const path = join(cache(), 'kv.lock');
      writeFileSync(path, `${pid} some-id ${host}\n`);
      let waited = false;
      await withLock(path, { times: QUICK, onWait: () => (waited = true) }, async () => {});
      expect(waited).toBe(!atOnce);
    }
  });
  it('is given back when the work fails, and not waited for after an abort', async () => {
    const path = join(cache(), 'kv.lock');
    await expect(
      withLock(path, { times: QUICK }, async () => {
        throw new Error('no');
      }),
    ).rejects.toThrow('no');
    const stop = new AbortController();
    await withLock(path, { times: QUICK }, async () => {
      const waiting = withLock(
        path,
        { signal: stop.signal, onWait: () => stop.abort(new Error('enough')), times: QUICK },
        async () => 'in',
      );
      await expect(waiting).rejects.toThrow('enough');
    });
    expect(below(join(path, '..'))).toEqual([]);
  });
});

describe('two processes', () => {
  let hub: FakeHub, home: string, script: string;
  beforeAll(async () => {
    hub = await startHub({ 'org/tiny': single(bytes(300_000)) });
    script = join(cache(), 'fetch.mjs');
    // @huggingface/hub is left out of the bundle and resolved from here.
    const library = import.meta.resolve('@huggingface/hub');
    await build({
      stdin: {
        contents:
          "import { fetchModel } from './src/index.ts'; console.log(await fetchModel('org/tiny', { backoffMs: 1, onWait: () => console.error('waits') }));",
        resolveDir: fileURLToPath(new URL('..', import.meta.url)),
        loader: 'ts',
      },
      bundle: true,
      format: 'esm',
      platform: 'node',
      target: 'node20',
      conditions: ['@kv/source'],
      outfile: script,
      logLevel: 'silent',
      plugins: [
        {
          name: 'library',
          setup: (bundler) =>
            bundler.onResolve({ filter: /^@huggingface\/hub$/ }, () => ({ path: library, external: true })),
        },
      ],
    });
  });
  afterAll(() => hub.close());
  beforeEach(() => {
    home = cache();
    hub.seen.length = hub.faults.length = 0;
  });
  const start = (): {
    readonly pid: { kill(signal: NodeJS.Signals): unknown };
    readonly ended: Promise<{ code: number | null; out: string; err: string }>;
  } => {
    const child = spawn(process.execPath, [script], { env: { PATH: process.env.PATH, ...envOf(hub, home) } });
    let out = '',
      err = '';
    child.stdout.on('data', (text: Buffer) => {
      out += text.toString();
    });
    child.stderr.on('data', (text: Buffer) => {
      err += text.toString();
    });
    return {
      pid: child,
      ended: new Promise((done) => child.on('close', (code) => done({ code, out: out.trim(), err: err.trim() }))),
    };
  };
  const fetched = (): number => hub.seen.filter(({ on }) => on === 'cdn').length;

  it('download a model once', async () => {
    hub.faults.push(times(1, slow(100_000, { bytes: 50_000, ms: 300 })));
    const [a, b] = await Promise.all([start().ended, start().ended]);
    expect([a.code, b.code, a.err + b.err]).toEqual([0, 0, 'waits']);
    expect(a.out).toBe(b.out);
    expect([fetched(), holds(a.out, single(bytes(300_000)), CHECKPOINT)]).toEqual([1, true]);
  });
  it('one of which was killed: the next call goes on', async () => {
    hub.faults.push(times(1, slow(100_000, undefined)));
    const { pid, ended } = start();
    while (fetched() === 0) await sleep(20);
    await sleep(200);
    pid.kill('SIGKILL');
    await ended;
    expect(below(home).some((path) => path.includes('snapshots'))).toBe(false);
    hub.seen.length = 0;
    expect(holds(await fetchFrom(hub, home), single(bytes(300_000)), CHECKPOINT)).toBe(true);
    expect(hub.seen.filter(({ on }) => on === 'cdn').map(({ range }) => range)).toEqual(['bytes=100000-']);
  }, 40_000);
});
