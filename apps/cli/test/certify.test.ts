import { mkdtempSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { expect, test } from 'vitest';
import type { Certificates } from '@kv/certificates';
import { kv } from './terminal.ts';
import { writeTinyModel } from './tiny-model.ts';

const cwd = mkdtempSync(join(tmpdir(), 'kv-certify-')), model = writeTinyModel(join(cwd, 'model'));
const run = (...args: string[]): ReturnType<typeof kv> => kv(['run', '--model', model, '--prompt', 'a text of some length, of which most goes', '--max-new-tokens', '3', ...args], { cwd });

test('--certify prints what evictions dropped and views hid, behind the text', async () => {
  const { stdout, code } = await run('--policy', 'tova', '--budget', '8', '--certify');
  expect(code).toBe(0);
  expect(stdout).toMatch(/\nEvictions, 8 query rows:\n {2}attention mass dropped \(total variation\) {2}0\.\d{4} on average, 0\.\d{4} at most\n/);
  expect((await run('--policy', 'cpe(budget=8,sinks=1,local=2,psi=1)', '--certify')).stdout).toMatch(/Views, 16 query rows:[^]*Retrievals of what could have retrieved: (0\.\d{4}|1\.0000)/);
  expect((await run('--certify')).stdout).toMatch(/\nNothing was evicted or hidden\.\n$/);
});
test('with --json they are an object, and the mass allocator needs no budget', async () => {
  const { stdout } = await run('--policy', 'exact ∘ mass(epsilon=0.2) ∘ topK', '--certify', '--json'), { certificates } = JSON.parse(stdout) as { certificates: Certificates };
  expect(certificates.events!.dropped.max).toBeLessThanOrEqual(0.2001);
  expect(JSON.parse((await run('--policy', 'tova', '--budget', '8', '--json')).stdout)).not.toHaveProperty('certificates');
});
test('of a document there are none', async () => {
  expect((await kv(['run', '--model', model, '--document', 'x.txt', '--question', 'y', '--certify'], { cwd })).stderr).toContain('--certify: expected a prompt, got a document');
});
