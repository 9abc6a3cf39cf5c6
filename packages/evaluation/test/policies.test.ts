import { describe, expect, it } from 'vitest';
import { policyOf } from '../src/policies.ts';

describe('the policy of a text', () => {
  it.each([
    ['random', 'seed=7'],
    ['random()', 'seed=7'],
    ['random(seed=3)', 'seed=3'],
  ])('%s draws by %s: a seed is handed to what names none', async (text, seed) =>
    expect((await policyOf(text, undefined, 7)).label).toContain(seed),
  );
  it('that does not draw stays as it is, and so does one of many pieces', async () => {
    expect((await policyOf('knorm', undefined, 7)).label).toBe('knorm ∘ topK');
    expect((await policyOf('random ∘ topK', undefined, 7)).label).toBe((await policyOf('random ∘ topK')).label);
  });
  it('is read over the names that it is given', async () => {
    await expect(policyOf('knorm', () => new Map())).rejects.toThrow(/knorm/);
    await expect(policyOf('nothing')).rejects.toThrow(/nothing/);
  });
});
