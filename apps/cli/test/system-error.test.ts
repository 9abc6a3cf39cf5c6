import { chmodSync, writeFileSync } from 'node:fs';
import { createServer } from 'node:net';
import type { AddressInfo } from 'node:net';
import { join } from 'node:path';
import { getSystemErrorMap } from 'node:util';
import fc from 'fast-check';
import { expect, it } from 'vitest';
import { openKeyFile } from '../src/serve/key-file.ts';
import { main } from '../src/main.ts';
import { systemSentence } from '../src/system-error.ts';
import { folder, kv } from './terminal.ts';

const failure = fc
  .record({
    code: fc.constantFrom(...[...getSystemErrorMap().values()].map(([code]) => code), 'ENOTFOUND'),
    syscall: fc.constantFrom('listen', 'open', 'read', 'connect', 'getaddrinfo', 'mkdir'),
    where: fc.constantFrom({}, { path: '/a/file' }, { address: '127.0.0.1', port: 80 }, { hostname: 'host' }),
  })
  .map(({ code, syscall, where }) => Object.assign(new Error(`${syscall} ${code}`), { code, syscall, ...where }));
const wrapped = fc.oneof(
  failure.map((error) => ({ error, thrown: error as Error })),
  failure.map((error) => ({ error, thrown: new TypeError('fetch failed', { cause: error }) as Error })),
  failure.map((error) => ({ error, thrown: new AggregateError([error], 'all failed') as Error })),
);

it('whatever the system refuses is one sentence about what was named, exit code 2 and no fault of kv', async () => {
  await fc.assert(
    fc.asyncProperty(wrapped, async ({ error, thrown }) => {
      let stderr = '';
      const code = await main(['completion', 'bash'], {
        stdout: {
          write() {
            throw thrown;
          },
        },
        stderr: { write: (text) => void (stderr += text) },
        signal: new AbortController().signal,
        cwd: '.',
        debug: false,
      });
      expect([code, stderr.trim().split('\n').length], stderr).toEqual([2, 1]);
      expect(stderr).toContain(`(${error.code} at ${error.syscall})`);
      expect(stderr).not.toContain('fault');
      if ('path' in error) expect(stderr.startsWith('/a/file: ')).toBe(true);
      if ('port' in error) expect(stderr.startsWith('127.0.0.1:80: ')).toBe(true);
    }),
  );
});

it('other errors are none of the system', () => {
  for (const error of [
    new Error('x'),
    new TypeError('ENOENT'),
    Object.assign(new Error('x'), { code: 'ERR_X' }),
    'ENOENT',
  ])
    expect(systemSentence(error)).toBeUndefined();
});

it('a port that is taken is told with what to do', async () => {
  const taken = createServer();
  await new Promise<void>((resolve) => taken.listen(0, '127.0.0.1', resolve));
  const { port } = taken.address() as AddressInfo,
    ran = await kv(['serve', '--port', String(port), '--device', 'cpu']);
  taken.close();
  expect(ran).toMatchObject({
    code: 2,
    stderr: `127.0.0.1:${port}: address already in use (EADDRINUSE at listen): --port names another port; --port 0 takes any that is free\n`,
  });
});

it.skipIf(process.platform === 'win32')('a file of keys that all users can read or write is warned of', () => {
  const cwd = folder();
  writeFileSync(join(cwd, 'keys'), 'secret\n');
  fc.assert(
    fc.property(fc.integer({ min: 0, max: 0o777 }), (mode) => {
      chmodSync(join(cwd, 'keys'), mode);
      const warning = openKeyFile('keys', cwd);
      expect(warning !== undefined).toBe(/[2367]$|[4-7]$/.test(mode.toString(8)));
      if (warning !== undefined) expect(warning).toContain(mode.toString(8));
    }),
  );
  chmodSync(join(cwd, 'keys'), 0o600);
  expect(openKeyFile('none', cwd)).toBeUndefined();
});
