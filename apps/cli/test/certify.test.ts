import { mkdtempSync, readFileSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import fc from 'fast-check';
import { expect, test } from 'vitest';
import type { Certificates, Constants } from '@kv/certificates';
import { certificateLines } from '../src/run/certificate-lines.ts';
import { kv } from './terminal.ts';
import { writeTinyModel } from '@kv/model-testing';

const cwd = mkdtempSync(join(tmpdir(), 'kv-certify-')),
  model = writeTinyModel(join(cwd, 'model'));
const share = fc.double({ min: 0, max: 1, noNaN: true });
const run = (...args: string[]): ReturnType<typeof kv> =>
  kv(
    [
      'run',
      '--model',
      model,
      '--prompt',
      'a text of some length, of which most goes',
      '--max-new-tokens',
      '3',
      ...args,
    ],
    { cwd },
  );

test('--certify prints what evictions dropped and views hid, after the text', async () => {
  const { stdout, code } = await run('--policy', 'tova', '--budget', '8', '--certify');
  expect(code).toBe(0);
  expect(stdout).toMatch(
    /\nEvictions, 8 query rows:\n {2}attention mass dropped \(total variation\) {2}0\.\d{4} on average, 0\.\d{4} at most\n/,
  );
  expect((await run('--policy', 'cpe(budget=8,sinks=1,local=2,psi=1)', '--certify')).stdout).toMatch(
    /Views, 16 query rows:[^]*Retrievals of what could have retrieved: (0\.\d{4}|1\.0000)/,
  );
  expect((await run('--certify')).stdout).toMatch(/\nNothing was evicted or hidden\.\n$/);
});
test('with --json they are an object, and the mass allocator needs no budget', async () => {
  const { stdout } = await run('--policy', 'newestQueryAttention ∘ mass(epsilon=0.2) ∘ topK', '--certify', '--json'),
    { certificates } = JSON.parse(stdout) as { certificates: Certificates };
  expect(certificates.events!.dropped.max).toBeLessThanOrEqual(0.2001);
  expect(JSON.parse((await run('--policy', 'tova', '--budget', '8', '--json')).stdout)).not.toHaveProperty(
    'certificates',
  );
});
test('what kv calibrate fits on a text, kv run --certify bounds windows and frozen positions by', async () => {
  const text =
    'Some words that stand for what the model will read; they go on for a while, since few tokens say little about how attention fades. '.repeat(
      2,
    );
  writeFileSync(join(cwd, 'text.txt'), text);
  const made = await kv(
    ['calibrate', '--model', model, '--text', 'text.txt', '--tokens', '200', '--out', 'constants.json'],
    { cwd },
  );
  expect(made.stderr).toBe('');
  expect(made.stdout).toMatch(
    /^200 tokens; mean query [\d.]+, largest [\d.]+, largest key [\d.]+\nlayer 1: lambda [-\d.e]+, sinks hold 0\.\d{4}; fit's error [\d.e-]+ in the logarithm, points up to [\d.e-]+ above it\nlayer 2: [^]*too few layers from 1 on to fit how keys change\n(?:for 0\.05 of the mass: phi\^alpha of at least [\d.]+ at position 200\n)?/,
  );
  const constants = JSON.parse(readFileSync(join(cwd, 'constants.json'), 'utf8')) as Constants;
  expect(constants).toMatchObject({ tokens: 200, layers: 2, dim: 8, sinks: 4 });
  expect(
    JSON.parse((await kv(['calibrate', '--model', model, '--text', 'text.txt', '--tokens', '200'], { cwd })).stdout),
  ).toEqual(constants);
  const { stdout } = await run('--policy', 'psaw(phi=0.3)', '--certify', '--constants', 'constants.json');
  expect(stdout).toMatch(
    /Windows and frozen positions, by the constants given:\n {2}layer 2: window drops 0\.\d{4}, bound [01]\.\d{4}(?:, which it exceeds by [^(]+)? \(over all that was calibrated [01]\.\d{4}(?:, exceeded too)?\); together at most [01]\.\d{4}\n/,
  );
  expect(
    (
      JSON.parse(
        (await run('--policy', 'psaw(phi=0.3)', '--certify', '--constants', 'constants.json', '--json')).stdout,
      ) as { certificates: Certificates }
    ).certificates.schedules,
  ).toHaveLength(1);
});
test('a bound that what was measured exceeds is told so, and no other is', () =>
  fc.assert(
    fc.property(share, share, share, (dropped, fitted, covering) => {
      const text = certificateLines({
        schedules: [
          {
            layer: 1,
            window: {
              rows: 1,
              dropped: { mean: dropped, max: dropped },
              fitted: { mean: fitted, max: fitted },
              covering: { mean: covering, max: covering },
              fit: { error: 0.25, above: 0.5 },
            },
            joint: fitted,
          },
        ],
      });
      expect(text.includes(', which it exceeds by ')).toBe(dropped > fitted);
      expect(text.includes("fit's error 0.25 in the logarithm")).toBe(dropped > fitted && dropped <= covering);
      expect(text.includes('exceeded too')).toBe(dropped > covering);
    }),
  ));
test('constants that do not fit are one sentence', async () => {
  writeFileSync(join(cwd, 'bad.json'), '{"layers":3}');
  writeFileSync(join(cwd, 'short.txt'), 'few');
  for (const [args, says] of [
    [['--certify', '--constants', 'bad.json'], 'calibration: expected'],
    [['--constants', 'bad.json'], '--constants: expected --certify too'],
    [['--certify', '--constants', 'none.json'], 'none.json'],
  ] as const)
    expect((await run(...args)).stderr).toContain(says);
  expect((await kv(['calibrate', '--model', model, '--text', 'short.txt'], { cwd })).stderr).toContain(
    '--text: expected at least 16 tokens',
  );
});
test('of a document there are none', async () => {
  expect(
    (await kv(['run', '--model', model, '--document', 'x.txt', '--question', 'y', '--certify'], { cwd })).stderr,
  ).toContain('--certify: expected a prompt, got a document');
});
