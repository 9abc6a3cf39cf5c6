import { KvError } from '@kv/core';
import { cpu } from '@kv/cpu';
import { parsePolicy } from '@kv/policies';
import fc from 'fast-check';
import { beforeAll, expect, test } from 'vitest';
import * as kv from '../../src/index.ts';
import type { HostModel } from '../../src/index.ts';

let model: HostModel;
beforeAll(async () => {
  model = await kv.loadModel('embedded');
});

/** What a caller without types passes by mistake: nothing, a text for what it names, the promise of what is meant. */
const MISTAKES: readonly (() => unknown)[] = [
  ...[undefined, null, true, NaN, -1, 1.5, 'model.gguf', '', [], ['a'], [[5, 3]], [null], {}, { a: 1 }].map(
    (x) => () => x,
  ),
  () => () => 1,
  () => Promise.resolve(1),
  () => new Uint8Array(3),
  () => new Map(),
];

const POLICY = parsePolicy('knorm | topK');

async function fed(): Promise<kv.Sequence> {
  const sequence = new kv.Sequence(model);
  await sequence.prefill([1, 2, 3, 4], { policies: [POLICY] });
  return sequence;
}
type Made = new (...given: unknown[]) => object;
type Called = (...given: unknown[]) => unknown;
const calls = kv as unknown as Readonly<Record<string, Called>>,
  on =
    (name: keyof kv.Sequence): Called =>
    (sequence, ...given) =>
      (sequence as Readonly<Record<string, Called>>)[name](...given);
/** A generation or an iterator runs to its end; `call` gets its arguments, of which one is a mistake. */
async function ran(made: unknown): Promise<unknown> {
  const iterator = Object(made) as Partial<AsyncIterator<unknown>> & { then?: unknown };
  if (!(Symbol.asyncIterator in Object(made)) || iterator.then) return made;
  while (!(await iterator.next!()).done);
  return undefined;
}

/** Each entry point: its right arguments, and the first of them that may be wrong. */
const ENTRIES: Readonly<Record<string, readonly [call: Called, right: () => Promise<unknown[]>, from?: number]>> = {
  loadModel: [calls.loadModel, async () => ['embedded', {}]],
  cpuRuntime: [calls.cpuRuntime, async () => [{}]],
  generate: [calls.generate, async () => [model, { ids: [1, 2], maxNewTokens: 2 }]],
  decode: [calls.decode, async () => [await fed(), { maxNewTokens: 2 }]],
  decodeTogether: [calls.decodeTogether, async () => [[await fed()], { maxNewTokens: 2 }]],
  createPrefixStore: [calls.createPrefixStore, async () => [model, { maxBytes: 1e6 }]],
  saveCache: [calls.saveCache, async () => [await fed()]],
  loadCache: [calls.loadCache, async () => [model, await kv.saveCache(await fed()), {}]],
  slotScores: [calls.slotScores, async () => [await fed(), 'knorm', 0]],
  answerGrammar: [calls.answerGrammar, async () => [model, { kind: 'json' }]],
  'new Sequence': [(...given) => new (kv.Sequence as unknown as Made)(...given), async () => [model, cpu, {}]],
  'new Chat': [(...given) => new (kv.Chat as unknown as Made)(...given), async () => [model, {}]],
  send: [
    (chat, ...given) => (chat as Readonly<Record<string, Called>>).send(...given),
    async () => [new kv.Chat(model), 'hello', {}],
    1,
  ],
  encode: [(...given) => (model.tokenizer.encode as Called)(...given), async () => ['hello']],
  decodeIds: [(...given) => (model.tokenizer.decode as Called)(...given), async () => [[1, 2]]],
  prefill: [on('prefill'), async () => [await fed(), [1, 2], {}], 1],
  prefillParts: [on('prefillParts'), async () => [await fed(), [1, 2], {}], 1],
  append: [on('append'), async () => [await fed(), [1, 2], {}], 1],
  evict: [on('evict'), async () => [await fed(), POLICY, 3], 1],
  protect: [on('protect'), async () => [await fed(), [[0, 2]]], 1],
  decodeUnder: [on('decodeUnder'), async () => [await fed(), POLICY, 3], 1],
  step: [on('step'), async () => [await fed(), 5, 2], 1],
  fork: [on('fork'), async () => [await fed(), 2], 1],
};

test.each(Object.keys(ENTRIES))('%s refuses a wrong argument in one sentence', async (name) => {
  const [call, right, from = 0] = ENTRIES[name],
    taken = await right();
  await expect(Promise.resolve(call(...taken)).then(ran)).resolves.not.toThrow();
  const at = fc.integer({ min: from, max: taken.length - 1 });
  await fc.assert(
    fc.asyncProperty(at, fc.constantFrom(...MISTAKES), async (place, mistake) => {
      const given = (await right()).with(place, mistake());
      try {
        await ran(await call(...given));
      } catch (error) {
        if (error instanceof KvError && !error.message.includes('\n')) return;
        throw error;
      }
    }),
    { numRuns: 60 },
  );
});
