import { entries } from '@kv/core';
import { catalogue } from '@kv/policies';
import { expect, test } from 'vitest';
import * as page from '../src/index.ts';

test('the page has every piece and method of the catalogue under its name', () => {
  const all = entries(catalogue).map(({ factory }) => [factory.description.name, factory] as const);
  expect(all.length).toBeGreaterThan(100);
  const exported = page as unknown as Readonly<Record<string, unknown>>;
  expect(all.filter(([name, factory]) => exported[name] !== factory).map(([name]) => name)).toEqual([]);
});
