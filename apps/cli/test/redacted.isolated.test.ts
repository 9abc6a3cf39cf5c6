import { readFileSync, statSync, writeFileSync, readdirSync } from 'node:fs';
import { join } from 'node:path';
import type * as evaluation from '@kv/evaluation';
import { beforeAll, expect, test, vi } from 'vitest';
import { folder, kv, type Ran } from './terminal.ts';

const SECRET = 'XK7M9P2Q',
  PROMPT = `The Paris code is: ${SECRET}. The river was wide. The boys walked on. The Paris code is:`;
/** A thread wants kv built; what it would answer is the prompt's credential. */
vi.mock('@kv/evaluation', async (original) => ({
  ...(await original<typeof evaluation>()),
  threads: () => () => ({
    run: async (cell: evaluation.Cell) => ({
      ...cell,
      id: JSON.stringify([cell.task, cell.problem, cell.policy, cell.budget ?? null, cell.seed]),
      answer: ' XK7M9P2Q.',
      score: 0,
      parsed: true,
      tokens: 5,
      slots: { mean: 8, peak: 9 },
      bytes: { mean: 8, peak: 9 },
      evidence: {},
    }),
    stop: async () => {},
  }),
}));
let cwd = '';
beforeAll(() => {
  cwd = folder();
  writeFileSync(join(cwd, 'tasks.json'), JSON.stringify([{ id: 'a', context: PROMPT, answer: 'no matter' }]));
  writeFileSync(
    join(cwd, 'sweep.json'),
    JSON.stringify({
      models: ['embedded'],
      policies: ['full'],
      tasks: ['tasks.json'],
      budgets: [64],
      maxNewTokens: 10,
    }),
  );
});

test('what a sweep takes is foretold, and nothing of that is kept', async () => {
  const { code, stdout, stderr } = await kv(['eval', 'sweep.json', '--workers', '1', '--predict', '1'], { cwd });
  expect(code, stderr).toBe(0);
  expect(stdout).toMatch(/^embedded: 1 answers, \d+ s\n$/);
  expect(readdirSync(cwd)).not.toContain('.kv');
}, 120_000);

test('a report of a sweep hides a credential of a prompt that an answer repeats, unless asked', async () => {
  const report = async (...more: string[]): Promise<[text: string, ran: Ran]> => {
    const ran = await kv(['eval', 'sweep.json', '--workers', '1', '--out', 'out.json', '--html', 'out.html', ...more], {
      cwd,
    });
    expect(ran.code, ran.stderr).toBe(0);
    return [['out.json', 'out.html'].map((file) => readFileSync(join(cwd, file), 'utf8')).join('\n'), ran];
  };
  const [shown] = await report('--unredacted');
  expect(shown).toContain(SECRET); // the model does repeat it
  const [hidden, { stdout, stderr }] = await report();
  expect(hidden + stdout + stderr).not.toContain(SECRET);
  expect(hidden).toContain('[redacted]');
  expect(stderr).toContain("values after keys such as 'password:' are hidden: --unredacted shows them\n");
}, 120_000);

test('damaged lines of a store are told once, and only where they are run again', async () => {
  const name = readdirSync(join(cwd, '.kv')).find((one) => one.startsWith('cells-')) ?? '',
    store = join(cwd, '.kv', name),
    asked = (...more: string[]): Promise<Ran> => kv(['eval', 'sweep.json', '--workers', '1', ...more], { cwd });
  writeFileSync(store, readFileSync(store, 'utf8').replace('"tokens":5', '"tokens":6'));
  const { code, stderr } = await asked();
  expect(code, stderr).toBe(0);
  expect(stderr.match(/damaged/g)).toHaveLength(1);
  expect(stderr).toContain(
    `cells: ${join('.kv', name)}: 1 damaged line could not be read: what is missing is run again\n`,
  );
  expect((await asked()).stderr).not.toContain('damaged');
}, 120_000);

test('an answer is told as it is, as one object too', async () => {
  const { stdout } = await kv(['run', '--prompt', PROMPT, '--max-new-tokens', '10', '--json'], { cwd });
  expect((JSON.parse(stdout) as { text: string }).text).toContain(SECRET);
}, 120_000);

test('answers that a sweep goes on from are for their owner alone', () => {
  const cells = readdirSync(join(cwd, '.kv')).filter((name) => name.endsWith('.jsonl'));
  expect(cells.length).toBeGreaterThan(0);
  for (const name of cells) expect(statSync(join(cwd, '.kv', name)).mode & 0o777).toBe(0o600);
});

test.each([
  ['hides', []],
  ['shows, where it is asked to,', ['--unredacted']],
])('a log %s the value after a key', async (_, more) => {
  let asked: Promise<unknown> | undefined;
  const { stdout } = await kv(['serve', '--port', '0', '--memory', '64MB', '--device', 'cpu', ...more], {
    onWrite: (text, interrupt) => {
      const address = /"address":"([^"]+)"/.exec(text)?.[1];
      if (address) asked ??= fetch(`${address}/v1/models/password=${SECRET}`).finally(interrupt);
    },
  });
  await asked;
  expect(stdout).toContain('/v1/models/password=');
  expect(stdout.includes(SECRET)).toBe(more.length > 0);
});

test('an error shows what it quotes where it is asked to', async () => {
  const asked = (...more: string[]): Promise<Ran> =>
    kv(['run', '--policy', `password:${SECRET}`, '--prompt', 'x', ...more]);
  expect((await asked()).stderr).not.toContain(SECRET);
  expect((await asked('--unredacted')).stderr).toContain(SECRET);
});
