import { KvError } from '@kv/core';
import { compile } from '@kv/core/engine';
import { drawnPolicies, refusedBy } from '@kv/evaluation/choose';
import { catalogue, parsePolicy, policyNames } from '@kv/policies';
import { expect, test } from 'vitest';
import { demandsOf } from '../src/demands.ts';

const shape = { layers: 4, queryHeads: 4, kvHeads: 2, headDim: 32, type: 'float32', fromMask: false, scale: 1 };

test('kv choose --for transformers.js takes the policies that this adapter runs, and refuses the others', () => {
  const drawn = drawnPolicies(catalogue, 1),
    texts = [...policyNames, ...Array.from({ length: 200 }, () => drawn.next().value as string)],
    taken: string[] = [];
  for (const text of texts) {
    const policy = parsePolicy(text),
      compiled = compile(policy);
    if (!compiled.evicts) continue; // no candidate
    const refused = refusedBy('transformers.js', compiled);
    let runs = true;
    try {
      demandsOf(policy, '25%', shape, { queries: true, text: true });
    } catch (cause) {
      if (!KvError.is(cause)) throw cause;
      runs = false;
    }
    expect([text, refused === undefined]).toEqual([text, runs]);
    if (runs) taken.push(text);
  }
  expect(taken.length).toBeGreaterThan(40);
});
