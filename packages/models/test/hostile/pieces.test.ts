import { traceOps } from '@kv/core/engine';
import { cpu } from '@kv/cpu';
import { hostileCases } from '@kv/laws';
import { hostilePieces } from '@kv/model-testing/hostile-pieces';
import { afterAll, describe, expect, test } from 'vitest';
import { generate, loadModel, Sequence } from '../../src/index.ts';
import type { Observer } from '../../src/index.ts';
import { fixture } from '@kv/model-testing/fixture';
import { compose, KvError, scorer, tokens } from '@kv/core';
import { knorm } from '@kv/scorers-knorm';
import { topK } from '@kv/selectors-top-k';

const IDS = Array.from({ length: 12 }, (_, i) => (i * 37 + 11) % 64);
const model = await loadModel(fixture('llama')),
  table = await hostilePieces(() => new Sequence(model), IDS),
  cases = hostileCases({ foreign: traceOps(cpu).ops.from({ data: [1], shape: [1, 1] }) });
afterAll(() => table.end());

describe('a sequence on the host and a piece that gives what it must not', () => {
  test.each(cases.map((one) => [one.name, one] as const))('%s', (_, one) => table.run(one));
});

test('tokens that a piece takes away or adds are missed at the next call', async () => {
  for (const change of [(ids: number[]) => void (ids.length = 3), (ids: number[]) => void ids.push(5)]) {
    const sequence = new Sequence(model),
      hostile = scorer('hostile', { needs: [tokens] }, (ctx) => {
        change(ctx.tokens.ids as number[]);
        return ctx.ops.from({ data: new Float32Array(ctx.at.slots), shape: [1, ctx.at.slots] });
      });
    await sequence.prefill(IDS);
    await sequence.evict(compose(hostile(), topK()), 4).catch(() => {});
    await expect(sequence.step(1)).rejects.toThrow(/^tokens: a piece changed the ids of the 12 tokens that were fed$/);
    sequence.destroy();
    expect(sequence.memory.ledger.bytes()).toMatchObject({ allocated: 0, live: 0 });
  }
});

describe('an observer', () => {
  const fails: readonly (readonly [
    name: string,
    observer: Partial<Record<keyof Observer, () => unknown>>,
    sentence: RegExp,
  ])[] = [
    [
      'that throws an error',
      {
        row: () => {
          throw new Error('enough');
        },
      },
      /^observer, layer 0: enough$/,
    ],
    [
      'that throws a string',
      {
        row: () => {
          throw 'enough';
        },
      },
      /^observer, layer 0: threw 'enough', expected an Error$/,
    ],
    [
      'that throws nothing',
      {
        row: () => {
          throw undefined;
        },
      },
      /^observer, layer 0: threw undefined, expected an Error$/,
    ],
    [
      'whose conclusion throws',
      {
        conclude: () => {
          throw new Error('enough');
        },
      },
      /^observer: enough$/,
    ],
    ...[undefined, null, 5, 'text', Promise.resolve({})].map(
      (x) =>
        [
          `that concludes ${x instanceof Promise ? 'a promise' : String(x)}`,
          { conclude: () => x },
          /^observer: expected an object as its conclusion, got /,
        ] as const,
    ),
  ];
  test.each(fails)('%s is told by one sentence', async (_, wrong, sentence) => {
    const certify = { row: () => {}, conclude: () => ({}), ...wrong } as Observer,
      error: unknown = await generate(model, {
        ids: IDS,
        policy: compose(knorm(), topK()),
        budget: 4,
        maxNewTokens: 2,
        certify,
      }).then(
        () => undefined,
        (cause: unknown) => cause,
      );
    expect(KvError.is(error)).toBe(true);
    expect((error as Error).message).toMatch(sentence);
  });
});
