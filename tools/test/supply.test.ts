import { execFile } from 'node:child_process';
import { readFileSync } from 'node:fs';
import { createServer } from 'node:http';
import type { AddressInfo } from 'node:net';
import { fileURLToPath } from 'node:url';
import { expect, test } from 'vitest';
import { ask, lines, locked } from '../audit.mjs';
import { billOf, checksums } from '../sbom.mjs';

const lock = readFileSync(new URL('../../pnpm-lock.yaml', import.meta.url), 'utf8');

test('every version of the lock file is asked about, and has a checksum', () => {
  const versions = locked(lock) as Record<string, string[]>;
  expect(versions['@huggingface/jinja']?.[0]).toMatch(/^\d+\.\d+\.\d+$/);
  expect(Object.keys(versions).length).toBeGreaterThan(300);
  const sums = checksums(lock) as Map<string, string>;
  for (const [name, all] of Object.entries(versions))
    for (const version of all) expect([name, sums.get(`${name}@${version}`)?.length]).toEqual([name, 128]);
});

test('an advisory is a line; silence is no answer', async () => {
  const advisory = { severity: 'high', title: 'T', url: 'u', vulnerable_versions: '<2' };
  expect(lines({ x: [advisory] })).toEqual(['high: x <2: T (u)']);
  const answering: typeof fetch = async (url, init) => {
    expect(String(url)).toBe('https://registry/-/npm/v1/security/advisories/bulk');
    return Response.json(JSON.parse(String(init?.body)));
  };
  expect(await ask('https://registry/', { x: ['1.0.0'] }, answering)).toEqual({ x: ['1.0.0'] });
  await expect(ask('https://registry/', {}, async () => new Response('', { status: 405 }))).rejects.toThrow('405');
});

test.each([
  [
    200,
    '{"pino":[{"severity":"high","title":"T","url":"u","vulnerable_versions":"*"}]}',
    1,
    /^high: pino \*: T \(u\)\n/,
  ],
  [200, '{}', 0, /^audit: 0 advisories about \d+ versions\n$/],
  [405, '', 2, /^audit: the registry did not answer \(HTTP status 405\): nothing is known about \d+ versions\n$/],
  [200, 'no JSON', 2, /^audit: the registry did not answer \(.*\): nothing is known/],
] as const)('a registry that answers %i %s ends the audit with %i', async (status, body, code, says) => {
  const server = createServer((_, response) => void response.writeHead(status).end(body));
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve));
  const { port } = server.address() as AddressInfo,
    env = { ...process.env, npm_config_registry: `http://127.0.0.1:${port}/` };
  try {
    const ended = await new Promise<[unknown, string]>((resolve) =>
      execFile(process.execPath, [fileURLToPath(new URL('../audit.mjs', import.meta.url))], { env }, (error, out) =>
        resolve([error?.code ?? 0, out]),
      ),
    );
    expect(ended).toEqual([code, expect.stringMatching(says)]);
  } finally {
    server.close();
  }
});

test('a bill names each part once, with what needs it', () => {
  const leaf = { from: 'leaf', version: '2.0.0' };
  const tree = { a: { from: '@x/a', version: '1.0.0', dependencies: { leaf } }, leaf };
  const bill = billOf({ name: 'p', version: '0.1.0', dependencies: tree }, new Map([['leaf@2.0.0', 'ab']]), 'now');
  expect(bill.components).toMatchObject([
    { purl: 'pkg:npm/%40x/a@1.0.0' },
    { purl: 'pkg:npm/leaf@2.0.0', hashes: [{ alg: 'SHA-512', content: 'ab' }] },
  ]);
  expect(bill.dependencies).toEqual([
    { ref: 'pkg:npm/p@0.1.0', dependsOn: ['pkg:npm/%40x/a@1.0.0', 'pkg:npm/leaf@2.0.0'] },
    { ref: 'pkg:npm/%40x/a@1.0.0', dependsOn: ['pkg:npm/leaf@2.0.0'] },
    { ref: 'pkg:npm/leaf@2.0.0', dependsOn: [] },
  ]);
});
