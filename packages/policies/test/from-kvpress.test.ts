import { describe, expect, test } from 'vitest';
import { compile } from '@kv/core/engine';
import { parsePolicy } from '../src/index.ts';
import { codes, tables } from './from-kvpress.ts';

const rows = [...tables().get('kvpress')!, ...tables().get('golden')!];
describe.each(rows.filter(([, here]) => here !== 'none').map(([name, here]) => [name, here]))('%s', (_name, here) => {
  test('is a policy here, and evicts', () => {
    expect(codes(here)).toHaveLength(1);
    expect(compile(parsePolicy(codes(here)[0])).evicts).toBe(true);
  });
});
test('what is missing says why', () => {
  for (const [name, here, why] of tables().get('kvpress')!) if (here === 'none') expect(why, name).not.toBe('');
});
