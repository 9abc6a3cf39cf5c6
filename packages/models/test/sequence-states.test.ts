import { compose, KvError, onCompact, scorer } from '@kv/core';
import { knorm } from '@kv/scorers-knorm';
import { topK } from '@kv/selectors-top-k';
import { beforeAll, describe, expect, test } from 'vitest';
import {
  createPrefixStore,
  decode,
  generate,
  loadModel,
  saveCache,
  Sequence,
  type Chunk,
  type HostModel,
  type Memory,
  type Model,
} from '../src/index.ts';
import { hostRunning, type HostDecoder, freeObservations, slotScores } from '@kv/engine';
import { fixture } from '@kv/model-testing/fixture';

const IDS = Array.from({ length: 24 }, (_, i) => (i * 37 + 11) % 64);
let model: HostModel;
beforeAll(async () => {
  model = await loadModel(fixture('llama'));
});

/** Returns the same model, and the bytes that all memories created from it hold. */
function counted<M extends Model>(of: M): { readonly model: M; readonly held: () => number } {
  const made: Memory[] = [];
  const memory: M['memory'] = (options) => {
    const one = of.memory(options);
    made.push(one);
    return one;
  };
  return {
    model: { ...of, memory },
    held: () => made.reduce((sum, { ledger }) => sum + ledger.allocated + ledger.live, 0),
  };
}

/** Returns the same model, whose layers first await `before`. */
function passing(before: (layer: number) => void | Promise<void>): HostModel {
  const { decoder } = model;
  const project: HostDecoder['project'] = async (layer, ...rest) => {
    await before(layer);
    return decoder.project(layer, ...rest);
  };
  return { ...model, ...hostRunning({ ...decoder, project }, model) };
}

/** Every call on a sequence except those on its size. */
const calls: readonly (readonly [string, (sequence: Sequence) => unknown])[] = [
  ['prefill', (s) => s.prefill([1, 2])],
  ['append', (s) => s.append([1])],
  ['step', (s) => s.step(1)],
  ['next', (s) => s.next()],
  ['evict', (s) => s.evict(compose(knorm(), topK()), 4)],
  ['decodeUnder', (s) => s.decodeUnder(compose(knorm(), topK()), 4)],
  ['settle', (s) => freeObservations(s)],
  ['fork', (s) => s.fork()],
  ['fork of a length', (s) => s.fork(1)],
  ['scores', (s) => slotScores(s, compose(knorm(), topK()), 0)],
  ['kept', (s) => s.kept()],
  ['logits', (s) => s.logits()],
  ['saveCache', (s) => saveCache(s)],
  ['decode', (s) => decode(s).next()],
];
/** Returns a call's error message, whether it throws or rejects. */
async function said(call: (sequence: Sequence) => unknown, sequence: Sequence): Promise<string> {
  try {
    await call(sequence);
    return 'nothing';
  } catch (error) {
    return (error as Error).message;
  }
}

describe('an error in the middle of a block', () => {
  test.each([
    ['prefill', (s: Sequence) => s.prefill(IDS)],
    ['append', (s: Sequence) => s.append([1, 2, 3])],
    ['step', (s: Sequence) => s.step(5)],
  ] as const)(
    'of %s leaves a sequence that says so whatever it is asked, and gives everything back',
    async (_, feed) => {
      let failing = false;
      const sequence = new Sequence(
        passing((layer) => {
          if (failing && layer === 1) throw new KvError('linear', 'expected a product, got none');
        }),
      );
      await sequence.prefill(IDS.slice(0, 8));
      failing = true;
      await expect(feed(sequence)).rejects.toThrow('linear: expected a product, got none');
      failing = false;
      for (const [name, call] of calls)
        expect(await said(call, sequence), name).toMatch(
          /^sequence: is unusable: it failed during a block.*linear: expected a product, got none/,
        );
      sequence.destroy();
      expect(sequence.memory.ledger.bytes()).toMatchObject({ allocated: 0, live: 0 });
    },
  );

  test('of what a policy makes of keys, which comes before any layer is compacted, leaves the sequence as it was', async () => {
    const fails = onCompact('test.fails', {}, ({ at }) => {
        if (at.layer === 1) throw new Error('out of memory');
        return {};
      }),
      policy = compose(knorm(), topK(), fails()),
      sequence = new Sequence(model);
    await sequence.prefill(IDS, { policies: [policy] });
    const before = sequence.kept();
    await expect(sequence.evict(policy, 8)).rejects.toThrow('test.fails, layer 1: out of memory');
    expect(sequence.kept()).toEqual(before);
    await sequence.step(1);
    sequence.destroy();
    expect(sequence.memory.ledger.bytes()).toMatchObject({ allocated: 0, live: 0 });
  });

  test('before anything changes leaves the sequence as it was', async () => {
    const sequence = new Sequence(model),
      other = new Sequence(model);
    for (const each of [sequence, other]) await each.prefill(IDS);
    await expect(sequence.step(64)).rejects.toThrow('a token id must be an integer from 0 to 63, got 64');
    await expect(sequence.append([1, -1])).rejects.toThrow('a token id must be an integer from 0 to 63, got -1');
    await expect(sequence.prefill([1.5])).rejects.toThrow('a token id must be an integer from 0 to 63, got 1.5');
    for (const each of [sequence, other]) await each.step(3);
    expect(sequence.kept()).toEqual(other.kept());
    expect([sequence.progress.length, sequence.progress.promptLength, sequence.stats.counts]).toEqual([
      other.progress.length,
      other.progress.promptLength,
      other.stats.counts,
    ]);
    expect([...(await sequence.logits())[0]]).toEqual([...(await other.logits())[0]]);
    for (const each of [sequence, other]) each.destroy();
  });
});

describe('after destroy()', () => {
  test('every call says so, and destroying again does nothing', async () => {
    const sequence = new Sequence(model);
    await sequence.prefill(IDS, { policies: [compose(knorm(), topK())] });
    sequence.destroy();
    for (const [name, call] of calls)
      expect(await said(call, sequence), name).toBe('sequence: was destroyed: start a new one');
    sequence.destroy();
    expect(sequence.memory.ledger.bytes()).toMatchObject({ allocated: 0, live: 0 });
  });

  test.each([0, 1])('a block in layer %i of 2 ends there, and frees everything', async (at) => {
    const sequence: Sequence = new Sequence(
      passing((layer) => {
        if (layer === at) sequence.destroy();
      }),
    );
    expect(sequence.model.config.layers).toBe(2);
    await expect(sequence.prefill(IDS)).rejects.toThrow('sequence: was destroyed: start a new one');
    expect(sequence.memory.ledger.bytes()).toMatchObject({ allocated: 0, live: 0 });
  });
});

describe('an abort', () => {
  test('during a block of prefill takes effect within a layer', async () => {
    const abort = new AbortController(),
      seen: number[] = [];
    const sequence = new Sequence(
      passing((layer) => {
        seen.push(layer);
        if (layer === 0) setTimeout(() => abort.abort());
        // the layer keeps working until the abort
        if (layer === 0) return new Promise((resolve) => setTimeout(resolve, 20));
        return undefined;
      }),
    );
    await expect(sequence.prefill(IDS, { signal: abort.signal })).rejects.toThrow('This operation was aborted');
    expect(seen).toEqual([0]);
    expect(await said((s) => s.step(1), sequence)).toMatch(/^sequence: is unusable: it failed during a block/);
    sequence.destroy();
    expect(sequence.memory.ledger.bytes()).toMatchObject({ allocated: 0, live: 0 });
  });

  test('that a timer gives lets itself in between layers that compute without a pause', async () => {
    const abort = new AbortController(),
      seen: number[] = [];
    const sequence = new Sequence(
      passing((layer) => {
        seen.push(layer);
        if (layer === 0) setImmediate(() => abort.abort());
      }),
    );
    await expect(sequence.prefill(IDS, { signal: abort.signal })).rejects.toThrow('This operation was aborted');
    expect(seen.length).toBeLessThan(model.config.layers);
    sequence.destroy();
  });

  test('before it starts, and between blocks, leaves a sequence that can go on', async () => {
    const abort = new AbortController(),
      sequence = new Sequence(model);
    await sequence.prefill(IDS);
    abort.abort();
    await expect(sequence.prefill(IDS, { signal: abort.signal })).rejects.toBe(abort.signal.reason);
    await sequence.step(1);
    expect(sequence.progress.length).toBe(IDS.length + 1);
    sequence.destroy();
  });

  test('during the prompt of a generation gives what there is, and everything back', async () => {
    const abort = new AbortController(),
      { model: one, held } = counted(
        passing((layer) => {
          if (layer === 1) abort.abort();
        }),
      );
    const { text, tokens, report } = await generate(one, { ids: IDS, signal: abort.signal, maxNewTokens: 4 });
    expect([text, tokens, report.finish]).toEqual(['', [], 'aborted']);
    expect(held()).toBe(0);
  });

  test('does not hide another error', async () => {
    const abort = new AbortController(),
      { model: one, held } = counted(
        passing((layer) => {
          if (layer !== 1) return;
          abort.abort();
          throw new KvError('linear', 'expected a product, got none');
        }),
      );
    await expect(generate(one, { ids: IDS, signal: abort.signal })).rejects.toThrow(
      'linear: expected a product, got none',
    );
    expect(held()).toBe(0);
  });
});

describe('a generation that is left early', () => {
  const options = { ids: IDS, maxNewTokens: 6 };
  test.each([
    [
      'by break',
      async (one: Model) => {
        for await (const _ of generate(one, options)) break;
      },
    ],
    [
      'by return',
      async (one: Model) => {
        const left = async (): Promise<Chunk | undefined> => {
          for await (const chunk of generate(one, options)) return chunk;
          return undefined;
        };
        expect((await left())?.token).toBeTypeOf('number');
      },
    ],
    [
      'by an exception',
      async (one: Model) => {
        await expect(
          (async () => {
            for await (const _ of generate(one, options)) throw new Error('enough');
          })(),
        ).rejects.toThrow('enough');
      },
    ],
    [
      'by the iterator',
      async (one: Model) => {
        const iterator = generate(one, options)[Symbol.asyncIterator]();
        await iterator.next();
        await iterator.return?.();
      },
    ],
    [
      'because a piece fails',
      async (one: Model) => {
        const fails = scorer('test.throws', {}, () => {
          throw new Error('no score');
        });
        await expect(generate(one, { ...options, policy: compose(fails(), topK()), budget: 8 })).rejects.toThrow(
          'no score',
        );
      },
    ],
  ])('%s gives everything back', async (_, leave) => {
    const { model: one, held } = counted(model);
    for (let i = 0; i < 3; i++) await leave(one);
    expect(held()).toBe(0);
  });

  test('and awaits it afterwards is told', async () => {
    const generation = generate(model, options);
    let seen = 0;
    for await (const _ of generation) if (++seen === 2) break;
    await expect(generation).rejects.toThrow('generate: has no result: its reader stopped after 2 tokens');
  });
});

describe('a generation that is iterated over and awaited', () => {
  const options = { ids: IDS, maxNewTokens: 6 };
  const read = async (generation: AsyncIterable<Chunk>): Promise<(number | undefined)[]> => {
    const tokens: (number | undefined)[] = [];
    for await (const { token } of generation) tokens.push(token);
    return tokens;
  };
  test('at once, or twice, in any order, gives everybody all of it', async () => {
    const want = await generate(model, options);
    for (const order of [
      (g: ReturnType<typeof generate>) => [g, read(g)],
      (g: ReturnType<typeof generate>) => [read(g), g],
      (g: ReturnType<typeof generate>) => [read(g), read(g), g, g],
    ]) {
      const { model: one, held } = counted(model);
      for (const got of await Promise.all(order(generate(one, options))))
        expect(Array.isArray(got) ? got : (got as typeof want).tokens).toEqual(want.tokens);
      expect(held()).toBe(0);
    }
    const generation = generate(model, options);
    expect((await generation).tokens).toEqual(want.tokens);
    expect(await read(generation)).toEqual(want.tokens);
    expect((await generation).text).toBe(want.text);
  });

  test('and left by one goes on for the others', async () => {
    const { model: one, held } = counted(model),
      want = await generate(model, options),
      generation = generate(one, options);
    const all = read(generation);
    for await (const _ of generation) break;
    expect(await all).toEqual(want.tokens);
    expect((await generation).tokens).toEqual(want.tokens);
    expect(held()).toBe(0);
  });

  test('and fails fails for everybody', async () => {
    const { model: one, held } = counted(
        passing((layer) => {
          if (layer === 1) throw new KvError('linear', 'expected a product, got none');
        }),
      ),
      generation = generate(one, options);
    const results = await Promise.allSettled([read(generation), Promise.resolve(generation), read(generation)]);
    for (const result of results)
      expect(result).toMatchObject({ status: 'rejected', reason: { message: 'linear: expected a product, got none' } });
    expect(held()).toBe(0);
  });
});

describe('a prefix store', () => {
  test('keeps nothing of a prompt that failed', async () => {
    let failing = true;
    const { model: one, held } = counted(
        passing((layer) => {
          if (failing && layer === 1) throw new KvError('linear', 'expected a product, got none');
        }),
      ),
      store = createPrefixStore(one, { maxBytes: 1e9 });
    await expect(store.add(IDS)).rejects.toThrow('linear');
    expect([held(), store.bytes]).toEqual([0, 0]);
    failing = false;
    await store.add(IDS);
    failing = true;
    await expect(store.sequence([...IDS, 1, 2])).rejects.toThrow('linear');
    failing = false;
    const sequence = await store.sequence([...IDS, 1, 2]);
    sequence.destroy();
    store.destroy();
    expect(held()).toBe(0);
  });
});

test('an observer that a device does not offer frees everything', async () => {
  const { model: one, held } = counted(model),
    hostile: Model = {
      ...one,
      memory: (options) => {
        const memory = one.memory(options);
        Object.defineProperty(memory.caches, 'observers', { value: undefined });
        return memory;
      },
    };
  await expect(generate(hostile, { ids: IDS, certify: { row: () => {}, conclude: () => ({}) } })).rejects.toThrow(
    'certify: expected a cache on the host',
  );
  expect(held()).toBe(0);
});
