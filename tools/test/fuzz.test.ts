import { execFileSync } from 'node:child_process';
import { mkdtempSync, readdirSync, readFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { expect, test } from 'vitest';
import names from '../fuzz/names.mjs';
import { targets, verdictOf } from '../fuzz/targets.ts';

const folder = new URL('../fuzz/corpus/', import.meta.url);

test('the list of targets is theirs', () => {
  expect(names).toEqual(Object.keys(targets));
});

test.each(Object.keys(targets))('%s: every kept input is taken or refused in one sentence', async (name) => {
  const files = readdirSync(new URL(`${name}/`, folder));
  const said = { taken: 0, refused: 0 };
  for (const file of files) {
    const bytes = new Uint8Array(readFileSync(new URL(`${name}/${file}`, folder)));
    const target = targets[name];
    if (target !== undefined) said[(await verdictOf(target, bytes)).taken ? 'taken' : 'refused']++;
  }
  expect(said.taken).toBeGreaterThan(0);
  expect(said.refused).toBeGreaterThan(0);
});

test('the fuzzer goes where its seeds do not, and counts its minutes', () => {
  const work = mkdtempSync(join(tmpdir(), 'kv-fuzz-test-'));
  const out = execFileSync(process.execPath, ['tools/fuzz.mjs', 'policy', '--seed', '1', '--work', work], {
    cwd: new URL('../..', import.meta.url),
    env: { ...process.env, FUZZ_MINUTES: '0.05' },
    encoding: 'utf8',
  });
  const [, result = '{}'] = /^policy: (\{.*?\}),/m.exec(out) ?? [];
  expect(JSON.parse(result)).toMatchObject({ faults: 0 });
  expect((JSON.parse(result) as { runs: number }).runs).toBeGreaterThan(50);
  expect(JSON.parse(readFileSync(join(work, 'hours.json'), 'utf8'))).toHaveProperty('policy.runs');
});
