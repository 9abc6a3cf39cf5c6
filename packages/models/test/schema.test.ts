import { KvError } from '@kv/core';
import { beforeAll, describe, expect, test } from 'vitest';
import { answerGrammar, generate, loadModel, type Model } from '../src/index.ts';

let model: Model;
beforeAll(async () => {
  model = await loadModel('embedded');
});
const schema = {
  type: 'object',
  properties: { code: { type: 'string', pattern: '^[A-Z0-9]{8}$' }, found: { type: 'boolean' } },
  required: ['code', 'found'],
};
const prompt = 'The code is: XK7M9P2Q. The code is:';

describe('generate({ schema })', () => {
  test('answers with JSON that fits, greedy and sampled, under a policy too', async () => {
    for (const options of [{}, { temperature: 1, seed: 5 }, { policy: 'snapkv', budget: '50%' }] as const) {
      const { text, report } = await generate(model, { prompt, schema, maxNewTokens: 80, ...options });
      expect([JSON.parse(text), report.finish]).toEqual([
        { code: expect.stringMatching(/^[A-Z0-9]{8}$/), found: expect.any(Boolean) },
        'eos',
      ]);
    }
  });
  test('a seed draws the same answer again', async () => {
    const drawn = async (seed: number): Promise<string> =>
      (await generate(model, { prompt, schema, temperature: 1.5, seed, maxNewTokens: 80 })).text;
    const all = await Promise.all([1, 1, 2, 3].map(drawn));
    expect([all[0], new Set(all).size > 1]).toEqual([all[1], true]);
  });
  test('says that the answer was too long for maxNewTokens, whose text is a beginning of JSON', async () => {
    const whole = (await generate(model, { prompt, schema, maxNewTokens: 80 })).text,
      { text, report } = await generate(model, { prompt, schema, maxNewTokens: 4 });
    expect([whole.startsWith(text), report.finish]).toEqual([true, 'length']);
  });
  test('refuses a schema that cannot be followed before it reads the prompt, and a schema with a grammar', async () => {
    const refused = { type: 'object', properties: { a: { not: {} } } };
    await expect(generate(model, { prompt, schema: refused })).rejects.toThrow(
      "schema.properties.a: 'not' cannot be followed: leave it out and check the answer instead",
    );
    const grammar = await answerGrammar(model, { kind: 'json' });
    await expect(generate(model, { prompt, schema, grammar })).rejects.toThrow(
      'schema: expected a schema or a grammar, got both',
    );
    await expect(generate(model, { prompt, schema: [] as object })).rejects.toThrow(KvError);
  });
});
