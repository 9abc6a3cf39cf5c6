import { writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { describe, expect, it } from 'vitest';
import { folder, kv } from './terminal.ts';

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
  it('says in one sentence what is wrong with its files', async () => {
    const cwd = folder();
    writeFileSync(join(cwd, 'ids.json'), '{"a": 1}');
    expect(await kv(['protocol', 'split', '--ids', 'ids.json'], { cwd })).toEqual({
      code: 2,
      stdout: '',
      stderr: 'ids.json: it must be array, got {"a":1}\n',
    });
    for (const step of ['probe', 'confirm', 'branch'])
      expect(await kv(['protocol', step, 'plan.json'], { cwd })).toEqual({
        code: 2,
        stdout: '',
        stderr: 'plan.json: expected a file that can be read, got ENOENT\n',
      });
    expect((await kv(['eval', 'ids.json'], { cwd })).stderr).toMatch(/^ids.json: .+\n$/);
  });
});
