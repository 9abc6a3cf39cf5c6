import { KvError } from '@kv/core';
import { compile } from '@kv/core/engine';
import { drawnPolicies, refusedBy } from '@kv/evaluation/choose';
import { catalogue, parsePolicy, policyNames } from '@kv/policies';
import { expect, test } from 'vitest';
import { expectTextual } from '../src/demands.ts';

test('kv choose --for node-llama-cpp takes the policies that this adapter runs, and refuses the others', () => {
  const drawn = drawnPolicies(catalogue, 1),
    texts = [...policyNames, ...Array.from({ length: 200 }, () => drawn.next().value as string)],
    taken: string[] = [];
  for (const text of texts) {
    const policy = parsePolicy(text),
      compiled = compile(policy);
    if (!compiled.evicts) continue; // no candidate
    const refused = refusedBy('node-llama-cpp', compiled);
    let runs = true;
    try {
      expectTextual(policy, 'test');
    } catch (cause) {
      if (!KvError.is(cause)) throw cause;
      runs = false;
    }
    expect([text, refused === undefined]).toEqual([text, runs]);
    if (runs) taken.push(text);
  }
  expect(taken.length).toBeGreaterThan(10);
});
