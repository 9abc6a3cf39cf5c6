import { readFileSync } from 'node:fs';
import { expect, test } from 'vitest';
import { codes, tables } from './from-kvpress.ts';
import { goldenOf, shared } from './goldens.ts';

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
  expect(
    tables()
      .get('golden')!
      .flatMap(([name]) => codes(name))
      .sort(),
  ).toEqual([...new Set(Object.keys(goldenOf('llama').policies).map((name) => name.replace(/_[\d.]+$/, '')))].sort());
});
