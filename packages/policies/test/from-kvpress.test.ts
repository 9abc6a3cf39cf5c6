import { readFileSync } from 'node:fs';
import { describe, expect, test } from 'vitest';
import { compile } from '@kv/core/engine';
import { parsePolicy } from '../src/index.ts';
import { codes, tables } from './from-kvpress.ts';

const json = (path: string): unknown => JSON.parse(readFileSync(new URL(path, import.meta.url), 'utf8'));
const rows = [...tables().get('kvpress')!, ...tables().get('golden')!];
describe.each(rows.filter(([, here]) => here !== 'none').map(([name, here]) => [name, here]))('%s', (_name, here) => {
  test('is a policy here, and evicts', () => {
    expect(codes(here)).toHaveLength(1);
    expect(compile(parsePolicy(codes(here)[0])).evicts).toBe(true);
  });
});
test('every press of kvpress has a row', () => {
  const presses = json('kvpress-presses.json') as readonly string[], // of its commit 8bb29b9
    here = tables()
      .get('kvpress')!
      .flatMap(([name]) => codes(name))
      .join(' ');
  expect(presses.length).toBeGreaterThanOrEqual(38);
  expect(presses.filter((name) => !new RegExp(`\\b${name}\\b`).test(here))).toEqual([]);
});
test('every golden has a row', () => {
  const { policies } = json('../../model-testing/data/goldens/llama/golden.json') as { readonly policies: object };
  expect(
    tables()
      .get('golden')!
      .flatMap(([name]) => codes(name))
      .sort(),
  ).toEqual([...new Set(Object.keys(policies).map((name) => name.replace(/_[\d.]+$/, '')))].sort());
});
test('what is missing says why', () => {
  for (const [name, here, why] of tables().get('kvpress')!) if (here === 'none') expect(why, name).not.toBe('');
});
