import { compile } from '@kv/core/engine';
import { parsePolicy, policyNames, recommendedPolicies } from '@kv/policies';
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

test('the list begins with the recommended and common ones, twelve in all; the others are in groups by what they go by, in order', () => {
  const [recommended, common, ...groups] = presetGroups;
  expect(recommended.label).toBe('Recommended');
  expect(recommended.presets.map(([text]) => text)).toEqual(recommendedPolicies.map(({ policy }) => policy));
  for (const [i, { when }] of recommendedPolicies.entries()) expect(recommended.presets[i][1]).toContain(when);
  expect([common.label, recommended.presets.length + common.presets.length]).toEqual(['Common', 12]);
  expect(groups.length).toBeGreaterThan(3);
  for (const { label, presets: own } of groups) {
    expect(label).toMatch(/^By |^Hide /);
    expect(own.map(([text]) => text)).toEqual(own.map(([text]) => text).toSorted((a, b) => a.localeCompare(b)));
  }
  expect(groups.find(({ presets: own }) => own.some(([text]) => text === 'quest'))?.label).toMatch(/^Hide /);
  expect(groups.find(({ presets: own }) => own.some(([text]) => text === 'kvzip'))?.label).toMatch(/another pass/);
});
