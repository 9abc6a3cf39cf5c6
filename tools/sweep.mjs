/**
 * `npm run test:sweep`: runs a sweep on this machine, and again over a Redis server with two workers; the workers and
 * the client are killed in the middle of cells. Then compares the results.
 */
import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { mkdirSync, mkdtempSync, readdirSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import { hasRedis, startRedis } from '../packages/model-testing/src/redis.mjs';
import { built } from './lib/kv.mjs';
import { fail, run, showUsage } from './lib/process.mjs';

showUsage(import.meta.filename);
const SWEEP = {
  models: ['embedded'],
  policies: ['full', 'streaming', 'snapkv(window=8)', 'random'],
  tasks: [{ task: 'niah_single_1', tokens: 700, problems: 4 }],
  budgets: [64, '25%'],
  maxNewTokens: 16,
};
/** How often both workers are killed. */
const KILLS = 2;

if (!hasRedis()) {
  console.error('Installing the Debian package redis-server (once) ...');
  const apt = (...args) => run('apt-get', ['-o', 'Acquire::Retries=3', ...args]);
  await apt('update', '-qq');
  await apt('install', '-y', '-qq', '--no-install-recommends', 'redis-server');
  if (!hasRedis())
    fail('redis-server could not be installed: this test needs it, or root on Debian 12 with a reachable mirror.');
}
const bin = await built(['--queue']),
  redis = await startRedis(),
  folder = mkdtempSync(join(tmpdir(), 'kv-sweep-')),
  running = new Set(),
  count = { passed: 0, failed: 0 };
const check = (says, ok) => {
  count[ok ? 'passed' : 'failed']++;
  console.log(`${ok ? ' ok ' : 'FAIL'} ${says}`);
};

/** Runs `kv` in its own folder below this test's. */
function kv(name, ...args) {
  const cwd = join(folder, name);
  mkdirSync(cwd, { recursive: true });
  const child = spawn(process.execPath, [bin, ...args, '--engine', 'f32', '--workers', '1'], {
    cwd,
    stdio: ['ignore', 'ignore', 'pipe'],
    env: { ...process.env, NO_COLOR: '1' },
  });
  let said = '';
  child.stderr.on('data', (text) => {
    said += text;
  });
  running.add(child);
  const ended = once(child, 'close').then(([code, signal]) => {
    running.delete(child);
    return { code, signal, said };
  });
  return { ended, kill: (signal) => child.kill(signal) };
}
const ask = () => kv('many', 'eval', '../sweep.json', '--queue', redis.url, '--out', 'rows.json', '--csv', 'rows.csv');
const worker = (name) => kv(name, 'worker', '--queue', redis.url, '--lease', '2');
const stored = (name) => {
  const store = join(folder, name, '.kv');
  try {
    return readFileSync(join(store, readdirSync(store)[0]), 'utf8');
  } catch {
    return ''; // none yet
  }
};
const cells = (name) => stored(name).split('\n').slice(1, -1);
/** Cells that a worker has taken. */
const active = () => {
  const [key] = redis.ask('keys', 'kv:*:meta');
  return key ? Number(redis.ask('llen', key.replace(/meta$/, 'active'))[0]) : 0;
};
async function until(what, done) {
  for (let left = 3000; left > 0; left--) {
    if (done()) return;
    await sleep(100);
  }
  throw new Error(`expected ${what} within five minutes, got none`);
}

try {
  writeFileSync(join(folder, 'sweep.json'), JSON.stringify(SWEEP));
  const one = await kv('one', 'eval', '../sweep.json', '--out', 'rows.json', '--csv', 'rows.csv').ended;
  check(`one machine answers its sweep${one.code === 0 ? '' : `: ${one.said}`}`, one.code === 0);
  const expected = cells('one').length;

  let asking = ask(),
    workers = [worker('first'), worker('second')],
    held = 0;
  for (let kill = 0; kill < KILLS; kill++) {
    const before = cells('many').length;
    await until('cells in the hands of both workers', () => cells('many').length > before && active() >= 2);
    for (const { kill } of workers) kill('SIGKILL');
    const ends = await Promise.all(workers.map(({ ended }) => ended));
    held += ends.every(({ signal }) => signal === 'SIGKILL') ? active() : 0;
    if (kill === 0) {
      asking.kill('SIGKILL');
      await asking.ended;
      asking = ask();
    }
    workers = [worker('first'), worker('second')];
  }
  check(
    `${KILLS} times two workers were killed with cells in their hands (${held} cells), and once who asks`,
    held >= 2 * KILLS,
  );
  const many = await asking.ended;
  check(`the sweep ends all the same${many.code === 0 ? '' : `: ${many.said}`}`, many.code === 0);
  const [key] = redis.ask('keys', 'kv:*:events'),
    stalled = redis.ask('xrange', key, '-', '+').filter((word) => word === 'stalled').length;
  check(`cells of workers that are gone were given to others (${stalled})`, stalled >= 2 * KILLS);
  for (const { kill } of workers) kill('SIGTERM');
  const ends = await Promise.all(workers.map(({ ended }) => ended));
  check(
    'workers end SIGTERM with 0',
    ends.every(({ code }) => code === 0),
  );

  const found = cells('many'),
    distinct = new Set(found.map((line) => JSON.parse(line).id)).size;
  check('no cell is lost', distinct === expected);
  check('no cell is stored twice', found.length === distinct);
  check('the store has the bytes of one machine', stored('many') === stored('one'));
  for (const file of ['rows.json', 'rows.csv'])
    check(
      `${file} has the bytes of one machine`,
      readFileSync(join(folder, 'many', file), 'utf8') === readFileSync(join(folder, 'one', file), 'utf8'),
    );
  console.log(`cells expected: ${expected}\ncells stored: ${distinct}\ncells duplicated: ${found.length - distinct}`);
} catch (error) {
  check(error instanceof Error ? error.message : String(error), false);
} finally {
  for (const child of running) child.kill('SIGKILL');
  await redis.stop();
  rmSync(folder, { recursive: true, force: true });
}
console.log(`${count.passed} passed, ${count.failed} failed`);
process.exit(count.failed === 0 ? 0 : 1);
