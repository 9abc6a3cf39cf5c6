import { existsSync, mkdirSync, readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { writeTinyModel } from '@kv/model-testing';
import { hasRedis, startRedis } from '@kv/model-testing/redis';
import { openQueue } from '@kv/queue';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { withWorker, ON, start } from './built.ts';
import { folder, kv } from './terminal.ts';
import type { Ran } from './terminal.ts';

const there = hasRedis();
if (!there) console.warn('Queue tests are skipped: there is no redis-server (apt-get install redis-server)');

let redis: Awaited<ReturnType<typeof startRedis>>, cwd: string, ran: string;
beforeAll(async () => {
  if (there) redis = await startRedis();
  cwd = folder();
  ran = join(cwd, 'ran');
  writeTinyModel(join(cwd, 'tiny'));
  const rows = [0, 1, 2].map((i) => ({
    id: `p/${i}`,
    context: `${'Some words stand here. '.repeat(6)}The number is ${i}.`,
    question: ' The number is',
    answer: String(i),
    maxNewTokens: 4,
  }));
  writeFileSync(join(cwd, 'rows.json'), JSON.stringify(rows));
  const source = `import { writeFileSync } from 'node:fs';\nwriteFileSync(${JSON.stringify(ran)}, '');\n`,
    pack = join(cwd, 'node_modules/evil');
  writeFileSync(join(cwd, 'evil.mjs'), source);
  mkdirSync(pack, { recursive: true });
  const manifest = { name: 'evil', version: '1.0.0', type: 'module', exports: './index.js', kv: { pieces: true } };
  writeFileSync(join(pack, 'package.json'), JSON.stringify(manifest));
  writeFileSync(join(pack, 'index.js'), source);
});
afterAll(() => redis?.stop());

/** A sweep in a folder of the test's. */
const sweep = (name: string, change: object = {}): string => {
  const said = { models: ['tiny'], policies: ['full', 'streaming'], tasks: ['rows.json'], budgets: [24] };
  writeFileSync(join(cwd, name), JSON.stringify({ ...said, ...change }));
  return name;
};
describe.runIf(there)('kv worker', () => {
  it('answers what kv eval --queue asks, which is what one machine says, and ends a signal with 0', async () => {
    let asked: Ran | undefined;
    const tasks = ['rows.json', { task: 'perplexity', tokens: 64, problems: 2 }],
      args = ['eval', sweep('one.json', { tasks }), '--out', 'rows-out.json'],
      worker = await withWorker(redis.url, cwd, async () => {
        asked = await start([...args, '--queue', redis.url, ...ON], cwd).ended;
      });
    expect([asked?.code, worker.code], `${asked?.stderr} ${worker.stderr}`).toEqual([0, 0]);
    expect(worker.stderr).toMatch(
      /^worker: takes cells of tiny on wasm, f32, 1 at once; Ctrl-C ends\nworker: answered 10 cells of tiny\n$/,
    );
    expect(asked?.stdout).toMatch(/streaming\s+(?:budget: )?24\s+(?:right: )?ppl \d/);
    const elsewhere = folder();
    writeTinyModel(join(elsewhere, 'tiny'));
    for (const file of ['rows.json', 'one.json']) writeFileSync(join(elsewhere, file), readFileSync(join(cwd, file)));
    const local = await start([...args, ...ON], elsewhere).ended;
    expect(local.stdout).toBe(asked?.stdout);
    expect(readFileSync(join(elsewhere, 'rows-out.json'), 'utf8')).toBe(
      readFileSync(join(cwd, 'rows-out.json'), 'utf8'),
    );
    // all is here: no Redis is asked
    const again = await start([...args, '--queue', 'redis://127.0.0.1:1', ...ON], cwd).ended;
    expect([again.code, again.stdout]).toEqual([0, asked?.stdout]);
  }, 120_000);
  it('gives the cell of a worker that is killed to another, and the sweep ends as on one machine', async () => {
    const own = await startRedis(), // with two workers of one queue
      tasks = [{ task: 'perplexity', tokens: 400, problems: 2 }],
      args = ['eval', sweep('killed.json', { models: ['embedded'], tasks }), '--out', 'killed-out.json'],
      takes = ['worker', '--queue', own.url, '--model', 'embedded', '--lease', '2', ...ON],
      first = start(takes, cwd);
    const asked = start([...args, '--queue', own.url, ...ON], cwd);
    // the second starts once the first has a cell, which dies in the middle of it
    const active = (): readonly string[] =>
      own.ask('keys', 'kv:*:active').flatMap((key) => own.ask('lrange', key, '0', '-1'));
    while (active().length === 0) {
      expect([first.child.exitCode, asked.child.exitCode]).toEqual([null, null]);
      await new Promise((resolve) => setTimeout(resolve, 20));
    }
    first.child.kill('SIGKILL');
    const second = start(takes, cwd);
    const [sweepRan, killed] = [await asked.ended, await first.ended];
    second.child.kill('SIGTERM');
    const { code, stderr } = await second.ended;
    expect([sweepRan.code, killed.code, code], sweepRan.stderr + stderr).toEqual([0, -1, 0]);
    await own.stop();
    const elsewhere = folder();
    writeFileSync(join(elsewhere, 'killed.json'), readFileSync(join(cwd, 'killed.json')));
    const local = await start([...args, ...ON], elsewhere).ended;
    expect(local.stdout).toBe(sweepRan.stdout);
    expect(readFileSync(join(elsewhere, 'killed-out.json'), 'utf8')).toBe(
      readFileSync(join(cwd, 'killed-out.json'), 'utf8'),
    );
  }, 120_000);
  it('runs nothing that a job names but the catalogue and what stands on its command line', async () => {
    const policies = ['./evil.mjs', '"./evil.mjs" ∘ topK', join(cwd, 'evil.mjs'), 'evil', 'evil:x ∘ topK'],
      problem = { id: 'p', context: 'x', question: 'y', answers: ['z'], grader: 'any', maxNewTokens: 1 },
      said: string[] = [];
    const worker = await withWorker(redis.url, cwd, async () => {
      const name = await queueOf(),
        queue = await openQueue({ url: redis.url, name });
      for (const policy of policies) {
        const cell = { task: 't', problem: 'p', policy, budget: 24, seed: 0 };
        await queue
          .ask({ format: 1, cell, problem, generation: {}, code: [] })
          .catch((error: Error) => said.push(error.message));
      }
      const cell = { task: 't', problem: 'p', policy: 'streaming', budget: 24, seed: 0 },
        code = ['@kv/core@0.0.0+0123456789abcdef'];
      await queue
        .ask({ format: 1, cell, problem, generation: {}, code })
        .catch((error: Error) => said.push(error.message));
      expect(said.at(-1)).toMatch(
        /^worker: job: expected a worker with @kv\/core@0\.0\.0\+0123456789abcdef, got .*@kv\/core@0\.0\.0\+[0-9a-f]{16},/,
      );
      await queue.ask({ format: 1, path: '/etc/passwd' }).catch((error: Error) => said.push(error.message));
      await queue.close();
    });
    expect(worker.code, worker.stderr).toBe(0);
    expect(said).toHaveLength(policies.length + 2);
    for (const sentence of said) expect(sentence).toMatch(/^worker: .*expected [^\n]*$|^worker: job: [^\n]*$/);
    expect(worker.stderr.match(/^worker: refused: /gm)).toHaveLength(policies.length + 2);
    expect(existsSync(ran)).toBe(false);
  }, 120_000);
});

/** The queue that the worker of this test listens to. */
async function queueOf(): Promise<string> {
  for (;;) {
    const [key] = redis.ask('keys', 'kv:*:stalled-check');
    if (key !== undefined) return key.split(':')[1];
    await new Promise((resolve) => setTimeout(resolve, 100));
  }
}

describe('a queue', () => {
  it.each([
    [['worker'], "kv: required option '--queue <url>' not specified"],
    [
      ['worker', '--queue', 'here', '--model', 'embedded', ...ON],
      'queue: expected an address such as redis://127.0.0.1:6379, got none',
    ],
    [
      ['worker', '--queue', 'redis://:hush@127.0.0.1:1', '--model', 'embedded', ...ON],
      'redis://127.0.0.1:1: expected a Redis server that answers, got ECONNREFUSED',
    ],
    [['worker', '--queue', 'redis://127.0.0.1:1', '--lease', '0'], '--lease: must be a positive whole number'],
    [
      ['worker', '--queue', 'redis://127.0.0.1:1', '--pieces', 'none'],
      'none: expected an installed package whose manifest',
    ],
  ])('is refused in one sentence (%#)', async (args, said) => {
    const { code, stdout, stderr } = await kv(args, { cwd });
    expect([code, stdout, stderr.trim().split('\n').length]).toEqual([2, '', 1]);
    expect(stderr).toContain(said);
  });
  it('takes no policy of a module, which other machines have not', async () => {
    const attention = new URL('../../../packages/scorers/attention/dist/index.js', import.meta.url).href,
      module = `import { streaming } from ${JSON.stringify(attention)};\nexport const policy = streaming();\n`;
    writeFileSync(join(cwd, 'mine.mjs'), module);
    const args = ['eval', sweep('module.json', { policies: ['./mine.mjs'] }), '--queue', 'redis://127.0.0.1:1'],
      { code, stderr } = await start([...args, ...ON], cwd).ended;
    expect([code, stderr]).toEqual([
      2,
      expect.stringMatching(
        /\n--queue: expected policies of the catalogue and of packages with pieces, .* got the module '.\/mine.mjs'\n$/,
      ),
    ]);
  });
});
