import { readFileSync } from 'node:fs';
import { expect, test } from 'vitest';
import { codes, tables } from './from-kvpress.ts';

/** The folder of the team's fixtures. */
const shared = `${process.env['KV_SHARED']}`;

test('every press of kvpress has a row', () => {
  const inner = readFileSync(`${shared}/peers.md`, 'utf8').match(/### 1\.2[^]*?### 1\.4/)![0],
    presses = Array.from(inner.matchAll(/^\| (\w+Press)\b/gm), ([, name]) => name);
  const here = tables()
    .get('kvpress')!
    .flatMap(([name]) => codes(name))
    .join(' ');
  expect(presses.length).toBeGreaterThanOrEqual(38);
  expect(presses.filter((name) => !new RegExp(`\\b${name}\\b`).test(here))).toEqual([]);
});
test('every golden has a row', () => {
  const { policies } = JSON.parse(readFileSync(`${shared}/data/goldens/llama/golden.json`, 'utf8')) as {
    readonly policies: object;
  };
  expect(
    tables()
      .get('golden')!
      .flatMap(([name]) => codes(name))
      .sort(),
  ).toEqual([...new Set(Object.keys(policies).map((name) => name.replace(/_[\d.]+$/, '')))].sort());
});
