import { expect, test } from 'vitest';
import { compile } from '@kv/core/engine';
import { policy, recommendedPolicies } from '@kv/policies';

test('every recommended policy parses and evicts', () => {
  expect(recommendedPolicies.length).toBe(5);
  for (const { policy: text } of recommendedPolicies) {
    expect(compile(policy(text)).evicts, text).toBe(true);
  }
});
