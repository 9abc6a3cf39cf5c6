import { readFileSync, statSync, writeFileSync, readdirSync } from 'node:fs';
import { join } from 'node:path';
import type * as evaluation from '@kv/evaluation';
import { beforeAll, describe, expect, test, vi } from 'vitest';
import { folder, kv, type Ran } from './terminal.ts';

const SECRET = 'XK7M9P2Q',
  QUESTION = ' The Paris code is:',
  DOCUMENT = `The Paris code is: ${SECRET}. The river was wide. The boys walked on.`,
  PROMPT = DOCUMENT + QUESTION;
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
    }),
    stop: async () => {},
  }),
}));
let cwd = '';
beforeAll(() => {
  cwd = folder();
  writeFileSync(join(cwd, 'doc.txt'), DOCUMENT);
  writeFileSync(join(cwd, 'tasks.json'), JSON.stringify([{ id: 'a', context: PROMPT, answer: 'no matter' }]));
  writeFileSync(
    join(cwd, 'sweep.json'),
    JSON.stringify({ models: ['embedded'], policies: ['full'], tasks: ['tasks.json'], budgets: [64], newTokens: 10 }),
  );
});

describe.each<[string, (...more: string[]) => Promise<Ran>, report: (ran: Ran) => string]>([
  [
    'kv run --json',
    (...more) => kv(['run', '--prompt', PROMPT, '--max-new-tokens', '10', '--json', ...more], { cwd }),
    ({ stdout }) => stdout,
  ],
  [
    'kv run --document --json',
    (...more) =>
      kv(['run', '--document', 'doc.txt', '--question', QUESTION, '--max-new-tokens', '10', '--json', ...more], {
        cwd,
      }),
    ({ stdout }) => stdout,
  ],
  [
    'kv eval --json',
    (...more) => kv(['eval', 'sweep.json', '--workers', '1', '--json', 'out.json', ...more], { cwd }),
    () => readFileSync(join(cwd, 'out.json'), 'utf8'),
  ],
])('%s', (_, command, report) => {
  test('hides a credential of the prompt that the answer repeats, unless asked', async () => {
    const shown = await command('--unredacted');
    expect(shown.code, shown.stderr).toBe(0);
    expect(report(shown)).toContain(SECRET); // the model does repeat it
    const hidden = await command();
    expect(hidden.code).toBe(0);
    expect(report(hidden) + hidden.stdout + hidden.stderr).not.toContain(SECRET);
    expect(report(hidden)).toContain('[redacted]');
    expect(hidden.stderr).toContain("what stands behind keys such as 'password:' is hidden: --unredacted shows it\n");
  }, 120_000);
});

test('answers that a sweep goes on from are for their owner alone', () => {
  const cells = readdirSync(join(cwd, '.kv')).filter((name) => name.endsWith('.jsonl'));
  expect(cells.length).toBeGreaterThan(0);
  for (const name of cells) expect(statSync(join(cwd, '.kv', name)).mode & 0o777).toBe(0o600);
});

test.each([
  ['hides', []],
  ['shows, where it is asked to,', ['--unredacted']],
])('a log %s what stands behind a key', async (_, more) => {
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
