import { KvError } from '@kv/core';
import { Ajv } from 'ajv';
import { Ajv2020 } from 'ajv/dist/2020.js';
import addFormats from 'ajv-formats';
import fc from 'fast-check';
import { describe, expect, test } from 'vitest';
import { grammarsOf } from '../src/index.ts';
import { cases } from './schemas.ts';
import { vocabularies } from './vocabularies.ts';
import { walk } from './walk.ts';

const ajv = (schema: object | boolean): ((value: unknown) => boolean) => {
  const checker = new Ajv2020({ strict: false, addUsedSchema: false, ownProperties: true });
  (addFormats as unknown as (ajv: Ajv2020) => void)(checker);
  return checker.compile(schema) as (value: unknown) => boolean;
};

describe.each(vocabularies)('over a vocabulary (%s)', (name, read) => {
  // a real vocabulary takes a hundred times as long
  const numRuns = name === 'SmolLM2' ? 3 : 12;

  test('any walk through the masks ends in JSON that fits the schema, as another validator has it', async () => {
    const model = await read(),
      grammars = grammarsOf(model);
    await fc.assert(
      fc.asyncProperty(cases, fc.integer(), async ({ schema }, seed) => {
        const matcher = (await grammars.compile({ kind: 'schema', schema })).begin();
        try {
          const text = walk(model, matcher, seed),
            fits = ajv(schema)(JSON.parse(text));
          expect(fits, text).toBe(true);
        } finally {
          matcher.destroy();
        }
      }),
      { numRuns },
    );
  });

  test('lists of items are those of drafts before 2020', async () => {
    const model = await read(),
      grammars = grammarsOf(model);
    const more = fc.constantFrom<object | boolean | undefined>(undefined, true, false, { type: 'null' });
    await fc.assert(
      fc.asyncProperty(more, fc.nat(3), fc.integer(), async (additionalItems, least, seed) => {
        const schema = {
            type: 'array',
            items: [{ type: 'boolean' }, { enum: ['a', 'b'] }],
            ...(additionalItems !== undefined && { additionalItems }),
            minItems: additionalItems === false ? Math.min(2, least) : least,
          },
          matcher = (await grammars.compile({ kind: 'schema', schema })).begin(),
          text = walk(model, matcher, seed);
        matcher.destroy();
        expect(new Ajv({ strict: false }).compile(schema)(JSON.parse(text)), text).toBe(true);
      }),
      { numRuns },
    );
  });

  test('tokens of any value that fits are allowed one after the other, and then an end', async () => {
    const model = await read(),
      { tokenizer, config } = model,
      grammars = grammarsOf(model);
    await fc.assert(
      fc.asyncProperty(cases, fc.boolean(), async ({ schema, value }, wide) => {
        expect(ajv(schema)(value)).toBe(true);
        const text =
            wide && value !== null && typeof value === 'object'
              ? JSON.stringify(value, null, 1)
              : JSON.stringify(value),
          matcher = (await grammars.compile({ kind: 'schema', schema })).begin();
        try {
          for (const id of tokenizer.encode(text, { special: false, parse: false }).ids) matcher.accept(id);
          const mask = matcher.allowed();
          expect(config.eosIds.some((id) => (mask[id >> 5] as number) & (1 << (id & 31)))).toBe(true);
        } catch (error) {
          throw KvError.is(error) ? new Error(`${text}: ${error.message}`) : error;
        } finally {
          matcher.destroy();
        }
      }),
      { numRuns },
    );
  });
});
