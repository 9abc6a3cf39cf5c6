import { spawn } from 'node:child_process';
import { appendFileSync, mkdirSync, readdirSync, readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { build } from 'esbuild';
import { beforeAll, describe, expect, it } from 'vitest';
import { lockStore, openStore, storePath } from '../src/jobs/store.ts';
import { folder } from './folder.ts';

const JOBS = 40;
/** Runs an experiment of the given number of short jobs into a folder, and says on stdout each that it ran. */
const PROGRAM = `
  import { writeSync } from 'node:fs';
  import { runExperiment } from './src/jobs/experiment.ts';
  const jobs = Array.from({ length: ${JOBS} }, (_, id) => ({ id }));
  await runExperiment(
    {
      name: 'r',
      settings: {},
      work: { kind: 'cell jobs' },
      left: (results) => jobs.filter(({ id }) => !results.some((result) => result.id === id)),
      conclude: () => undefined,
    },
    {
      folder: process.argv[2],
      start: () => ({
        run: async ({ id }) => {
          await new Promise((done) => setTimeout(done, 3));
          return { id, text: 'x'.repeat(3000) };
        },
        stop: async () => {},
      }),
      onResult: ({ id }) => writeSync(1, id + '\\n'),
      onWait: () => writeSync(2, 'waits\\n'),
    },
  );
`;

interface Ended {
  readonly code: number | null;
  readonly ran: readonly number[];
  readonly waited: boolean;
}
let program: string;
beforeAll(async () => {
  program = join(folder(), 'run.mjs');
  await build({
    stdin: { contents: PROGRAM, resolveDir: fileURLToPath(new URL('..', import.meta.url)), loader: 'ts' },
    bundle: true,
    format: 'esm',
    platform: 'node',
    target: 'node20',
    conditions: ['@kv/source'],
    outfile: program,
    logLevel: 'silent',
  });
});
function start(into: string): { readonly kill: () => void; readonly ended: Promise<Ended> } {
  const child = spawn(process.execPath, [program, into]);
  let out = '',
    err = '';
  child.stdout.on('data', (text: Buffer) => (out += text.toString()));
  child.stderr.on('data', (text: Buffer) => (err += text.toString()));
  return {
    kill: () => void child.kill('SIGKILL'),
    ended: new Promise((done) =>
      child.on('close', (code) => {
        expect(err.replaceAll('waits\n', '')).toBe('');
        done({ code, ran: out.trim().split('\n').filter(Boolean).map(Number), waited: err !== '' });
      }),
    ),
  };
}
const kept = (into: string): ReturnType<typeof openStore<{ id: number }>> =>
  openStore<{ id: number }>({ folder: into, name: 'r', settings: {} });

describe('two runs of one store', () => {
  it('compute every result once: the second waits, and goes on with what the first left', async () => {
    const into = folder(),
      all = await Promise.all([0, 1, 2].map(() => start(into).ended));
    expect(all.map(({ code }) => code)).toEqual([0, 0, 0]);
    expect(all.flatMap(({ ran }) => ran).sort((a, b) => a - b)).toEqual([...Array(JOBS).keys()]);
    expect(all.filter(({ waited }) => waited).length).toBeGreaterThan(0);
    expect(readdirSync(into)).toHaveLength(1);
  }, 60_000);
  it('of which some are killed at any time lose nothing that was counted, and the next goes on', async () => {
    for (let round = 0; round < 6; round++) {
      const into = folder(),
        runs = [0, 1, 2].map(() => start(into));
      for (const { kill } of runs.slice(0, 2)) setTimeout(kill, 60 + Math.random() * 400);
      const all = await Promise.all(runs.map(({ ended }) => ended)),
        { found, damaged } = kept(into),
        ids = found.map(({ id }) => id);
      expect([all[2].code, damaged]).toEqual([0, 0]);
      expect(ids.sort((a, b) => a - b)).toEqual([...Array(JOBS).keys()]);
      for (const { ran } of all) for (const id of ran) expect(ids).toContain(id);
    }
  }, 120_000);
});

describe('the lock of a store', () => {
  it('that cannot be written is one sentence', async () => {
    const into = folder(),
      path = storePath(into, 'r', {});
    mkdirSync(`${path}.lock`); // held by what is no process
    const stop = new AbortController();
    await expect(
      lockStore(path, { signal: stop.signal, onWait: () => stop.abort(new Error('enough')) }),
    ).rejects.toThrow('enough');
    writeFileSync(join(into, 'file'), '');
    await expect(lockStore(join(into, 'file/in/r'))).rejects.toThrow(/r: expected a path through folders, got one/);
  });
});

it('what is read is not written: a line that another is writing stays', () => {
  const into = folder(),
    store = kept(into);
  store.add({ id: 0 });
  appendFileSync(store.path, '{"id":1,');
  const before = readFileSync(store.path);
  expect(kept(into)).toMatchObject({ found: [{ id: 0 }], damaged: 1 });
  expect(readFileSync(store.path)).toEqual(before);
  kept(into).add({ id: 2 });
  expect(kept(into)).toMatchObject({ found: [{ id: 0 }, { id: 2 }], damaged: 0 });
});
