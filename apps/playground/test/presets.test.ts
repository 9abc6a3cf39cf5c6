import { compile } from '@kv/core/engine';
import { parsePolicy, policyNames } from '@kv/policies';
import { expect, test } from 'vitest';
import { DEFAULT } from '../src/choice.ts';
import { presetGroups } from '../src/presets.ts';

const presets = presetGroups.flatMap((group) => group.presets.map(([text]) => text));

test('every policy of the catalogue can be picked, each text once', () => {
  expect(new Set(presets).size).toBe(presets.length);
  const names = new Set(presets.map((text) => /^\w+/.exec(text)![0]));
  expect(policyNames.filter((name) => !names.has(name) && !presets.includes(name))).toEqual([]);
});

test.each(presets)('%s is a policy', (text) => {
  expect(() => compile(parsePolicy(text))).not.toThrow();
});

test('the page starts with two of them', () => {
  expect(DEFAULT.policies.every((text) => presets.includes(text))).toBe(true);
});
