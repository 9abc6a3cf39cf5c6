import { cpSync, readdirSync, readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { fittedHelp } from '../src/help.ts';
import { branchMeanings, protocolExample, protocolFields, splitIds } from '@kv/evaluation';
import { writeTinyModel } from '@kv/model-testing';
import { inTurn } from '@kv/model-testing/in-turn';
import { hasRedis, startRedis } from '@kv/model-testing/redis';
import { describe, expect, it } from 'vitest';
import { withWorker, ON, start } from './built.ts';
import { folder, kv } from './terminal.ts';
import type { Ran } from './terminal.ts';

const SPLIT = { dev: ['test/precalculus/807.json'], confirm: ['a', 'b'] };

describe('kv protocol', () => {
  it('splits ids by md5, as JSON or as counts', async () => {
    const cwd = folder();
    writeFileSync(join(cwd, 'ids.json'), JSON.stringify(['a', 'test/precalculus/807.json', 'b']));
    const { stdout, code } = await kv(['protocol', 'split', '--ids', 'ids.json', '--json'], { cwd });
    expect(code).toBe(0);
    // md5 mod 5, by Python's int(hashlib.md5(id).hexdigest(), 16) % 5
    expect(JSON.parse(stdout)).toEqual(SPLIT);
    expect((await kv(['protocol', 'split', '--ids', 'ids.json'], { cwd })).stdout).toBe(
      `dev: ${SPLIT.dev.length}\nconfirm: ${SPLIT.confirm.length}\n`,
    );
  });
  it('shows in its help a plan and every field of one', async () => {
    const { stdout } = await kv(['protocol', '--help'], { columns: 120 });
    for (const text of [protocolExample, fittedHelp(protocolFields, 120)]) expect(stdout).toContain(text);
  });
  it('says in one sentence what is wrong with its files', async () => {
    const cwd = folder();
    writeFileSync(join(cwd, 'ids.json'), '{"a": 1}');
    expect(await kv(['protocol', 'split', '--ids', 'ids.json'], { cwd })).toEqual({
      code: 2,
      stdout: '',
      stderr: 'ids.json: expected an array, got {"a":1}\n',
    });
    writeFileSync(join(cwd, 'none.json'), '[]');
    expect((await kv(['protocol', 'split', '--ids', 'none.json'], { cwd })).stderr).toBe(
      'none.json: expected at least one id, got none\n',
    );
    for (const step of ['probe', 'confirm', 'branch'])
      expect(await kv(['protocol', step, 'plan.json'], { cwd })).toEqual({
        code: 2,
        stdout: '',
        stderr: 'plan.json: expected a file that can be read, got ENOENT\n',
      });
    expect((await kv(['eval', 'ids.json'], { cwd })).stderr).toMatch(/^ids.json: .+\n$/);
  });
});

const IDS = ['a', 'b', 'c', 'd', 'e', 'f'];
/** A folder with a model, problems on both sides of the split, and a plan. */
const planned = (ids: readonly string[] = IDS): string => {
  const cwd = folder();
  writeTinyModel(join(cwd, 'tiny'));
  const rows = ids.map((id) => ({
    id,
    context: `${'Some words stand here. '.repeat(6)}The letter is ${id}.`,
    question: ' The letter is',
    answer: id,
    maxNewTokens: 4,
  }));
  writeFileSync(join(cwd, 'rows.json'), JSON.stringify(rows));
  const plan = {
    tasks: 'rows.json',
    models: [{ name: 'tiny', model: 'tiny', role: 'primary' }],
    budgets: [24],
    base: 'streaming(sinks=4)',
    candidate: 'streaming(sinks={lambda})',
    lambdas: [2, 8],
    seeds: [0, 1],
  };
  writeFileSync(join(cwd, 'plan.json'), JSON.stringify(plan));
  return cwd;
};

/** Each step starts a process, which takes long: a run tests one machine alone, or a queue, in turn. */
const turn = inTurn(['one machine', 'a queue'], 2);

describe.runIf(turn.includes('one machine'))('kv protocol on one machine', () => {
  it('says how good so few problems are, what a branch means, how a tie was broken, and that seeds repeat', async () => {
    const cwd = planned(),
      { confirm: held, dev } = splitIds(IDS),
      step = (name: string): Promise<Ran> =>
        start(['protocol', name, 'plan.json', ...(name === 'branch' ? [] : ON)], cwd, { columns: 400 }).ended,
      quiet = (...args: readonly string[]): Promise<Ran> => start(['protocol', ...args, ...ON], planned()).ended,
      screening = (n: number): string => `screening, n = ${n} (a verdict takes 200)`,
      note = '2 seeds at temperature 0 repeat one answer';
    const probed = await step('probe');
    expect(probed.stdout).toContain(
      'lambda: 2 (all weights tie: of mean gains within half a point of the best the smallest weight is taken)',
    );
    expect(probed.stdout).toContain(`screening, n = ${dev.length} (ids to choose on give no verdict)\ntiny: weights `);
    expect(probed.stdout).toMatch(
      /\nat lambda 0 the candidate is not the base: on tiny with 24 slots it answers \d of \d problems otherwise, so that more than lambda is compared\n/,
    );
    expect(probed.stderr.split(note)).toHaveLength(2);
    for (const args of [
      ['-q', 'probe', 'plan.json'],
      ['probe', '-q', 'plan.json'],
    ])
      expect((await quiet(...args)).stderr).toBe('');
    const confirmed = await step('confirm');
    expect(confirmed.stdout).toContain(screening(held.length));
    expect(confirmed.stdout).toContain('that of the sign-flip test');
    expect(confirmed.stderr.split(note)).toHaveLength(2);
    const narrow = await kv(['protocol', 'branch', 'plan.json'], { cwd, columns: 80 });
    for (const line of narrow.stdout.split('\n')) expect(line.length).toBeLessThanOrEqual(80);
    const decided = await step('branch'),
      { stdout: help } = await kv(['protocol', 'branch', '--help'], { columns: 120 });
    expect(decided.stdout).toContain(`branch C: ${branchMeanings.C}\n`);
    expect(decided.stdout).toContain('no cell of either role loses, p < .05 (stricter than the rule): yes');
    expect(decided.stdout).toContain('cells that gain after Bonferroni: 0 of 1\n');
    expect(decided.stdout).toContain(screening(held.length));
    for (const meaning of Object.values(branchMeanings)) expect(help.replace(/\s+/g, ' ')).toContain(meaning);
    // a second run is told as what it is
    const second = await step('confirm'),
      later = 'not a confirmation: look 2 at these ids; ',
      all = `${held.length} of these ${held.length} problems were looked at before\n`;
    expect(second.stdout).toMatch(new RegExp(`^${later}${all}`));
    expect(second.stderr).toContain(`confirm: look 2: ${all}`);
    expect((await step('branch')).stdout).toMatch(new RegExp(`^${later}branch C: `));
    expect((await kv(['protocol', 'confirm', '--help'], { columns: 200 })).stdout).toContain(
      'A second run is allowed but recorded as look 2, and is no confirmation.',
    );
    // a line of the ledger that is lost is told
    const name = readdirSync(join(cwd, '.kv')).find((one) => one.startsWith('protocol-'))!, // confirm wrote it
      ledger = join(cwd, '.kv', name),
      lines = readFileSync(ledger, 'utf8').split('\n');
    writeFileSync(ledger, lines.toSpliced(2, 1).join('\n'));
    const broken = await step('branch');
    expect([broken.code, broken.stdout, broken.stderr]).toEqual([
      2,
      '',
      expect.stringMatching(/^.*protocol-[0-9a-f]{12}\.jsonl, line 3: expected .+\n$/),
    ]);
  }, 120_000);
  it('names one model once, and says in every later step that few ids chose', async () => {
    const ids = [...'abcdefghijklmno'],
      cwd = planned(ids),
      plan = JSON.parse(readFileSync(join(cwd, 'plan.json'), 'utf8')) as { models: object[] },
      { dev } = splitIds(ids),
      step = (name: string, file: string, ...more: readonly string[]): Promise<Ran> =>
        start(['protocol', name, file, ...more, ...(name === 'branch' ? [] : ON)], cwd, { columns: 400 }).ended;
    cpSync(join(cwd, 'tiny'), join(cwd, 'copy'), { recursive: true });
    const twice = { ...plan, models: [...plan.models, { name: 'other', model: 'copy', role: 'second' }] };
    writeFileSync(join(cwd, 'twice.json'), JSON.stringify(twice));
    const refused = await step('probe', 'twice.json');
    expect([refused.code, refused.stdout]).toEqual([2, '']);
    expect(refused.stderr).toMatch(
      /^probe: expected models of different weights, got one \([0-9a-f]{16}\) as "tiny" and as "other": name each once$/m,
    );
    writeFileSync(join(cwd, 'few.json'), JSON.stringify(dev.slice(0, 1)));
    const probed = await step('probe', 'plan.json', '--ids', 'few.json');
    expect(probed.stdout).toContain(`mean gain in points on 1 of ${dev.length} ids: `);
    const chosen = `weight chosen on 1 of ${dev.length} ids to choose on`;
    expect((await step('confirm', 'plan.json')).stdout).toMatch(new RegExp(`^look 1 at these ids; ${chosen}\n`));
    expect((await step('branch', 'plan.json')).stdout).toMatch(new RegExp(`^${chosen}; branch C: `));
  }, 120_000);
  it.each(['confirm', undefined])(
    'is not what kv eval keeps: a sweep of part %s says so',
    async (part) => {
      const cwd = planned();
      writeFileSync(
        join(cwd, 'sweep.json'),
        JSON.stringify({
          models: ['tiny'],
          policies: ['streaming(sinks=4)'],
          tasks: ['rows.json'],
          budgets: [24],
          seeds: [0, 1],
          part,
        }),
      );
      const { code, stdout, stderr } = await start(['eval', 'sweep.json', '--csv', 'rows.csv', ...ON], cwd).ended;
      expect([code, stderr]).toEqual([
        0,
        expect.stringContaining(
          part === undefined
            ? "eval: a sweep without part answers every id, those that 'kv protocol' would confirm on included; its ledger"
            : "eval: part confirm answers the ids that 'kv protocol' would confirm on; its ledger",
        ),
      ]);
      expect(stderr).toContain('eval: 2 seeds at temperature 0 repeat one answer');
      const n = part === undefined ? IDS.length : splitIds(IDS).confirm.length;
      expect(stdout).toMatch(new RegExp(` ${n}\\n`)); // the last column
      expect(readFileSync(join(cwd, 'rows.csv'), 'utf8')).toContain(`,${n},${2 * n},`);
    },
    120_000,
  );
});

const there = hasRedis();
if (!there) console.warn('Queue tests are skipped: there is no redis-server (apt-get install redis-server)');

describe.runIf(there && turn.includes('a queue'))('kv protocol --queue', () => {
  it('comes to what one machine comes to, cell by cell and in the ledger', async () => {
    const redis = await startRedis();
    try {
      const [here, far] = [planned(), planned()],
        steps = ['probe', 'confirm', 'branch'],
        ran = async (cwd: string, queue: readonly string[]): Promise<readonly Ran[]> => {
          const all: Ran[] = [];
          for (const step of steps) {
            const on = step === 'branch' ? [] : [...queue, ...ON];
            all.push(await start(['protocol', step, 'plan.json', '--json', ...on], cwd).ended);
          }
          return all;
        };
      let asked: readonly Ran[] = [];
      const worker = await withWorker(redis.url, far, async () => {
          asked = await ran(far, ['--queue', redis.url]);
        }),
        local = await ran(here, []);
      expect(asked.map(({ code, stderr }) => [code, stderr.includes('expected')])).toEqual(steps.map(() => [0, false]));
      expect(asked.map(({ stdout }) => stdout)).toEqual(local.map(({ stdout }) => stdout));
      expect(asked.every(({ stdout }) => stdout.length > 50)).toBe(true);
      const cells = Number(/worker: answered (\d+) cells of tiny/.exec(worker.stderr)?.[1]),
        kept =
          readFileSync(join(far, '.kv', cellsOf(far)), 'utf8')
            .trim()
            .split('\n').length - 1;
      expect([worker.code, cells]).toEqual([0, kept]);
      expect(kept).toBeGreaterThan(6);
      // a second look is told from the ledger: no worker is asked
      const again = await start(['protocol', 'confirm', 'plan.json', '--queue', 'redis://127.0.0.1:1', ...ON], far)
        .ended;
      expect([again.code, again.stderr]).toEqual([0, expect.stringContaining('confirm: look 2: ')]);
    } finally {
      await redis.stop();
    }
  }, 240_000);
});

const cellsOf = (cwd: string): string => readdirSync(join(cwd, '.kv')).find((name) => name.startsWith('cells-')) ?? '';
