import { compose, KvError } from '@kv/core';
import { snapkv } from '@kv/scorers-attention';
import { topK } from '@kv/selectors-top-k';
import { afterEach, expect, test, vi } from 'vitest';
import { Ledger } from '@kv/engine';
import { loadModel, Sequence } from '../../src/index.ts';
import { fixture } from '@kv/model-testing/fixture';

const IDS = Array.from({ length: 24 }, (_, i) => (i * 37 + 11) % 64),
  policy = compose(snapkv({ window: 4 }), topK()),
  model = await loadModel(fixture('llama'));
/** Runs everything that a sequence does: a prompt, an event, tokens. */
const run = async (sequence: Sequence): Promise<readonly number[]> => {
  await sequence.prefill(IDS, { policy, budget: 8, block: 8 });
  await sequence.step(1);
  await sequence.step(2);
  const [row] = await sequence.logits();
  return [...row];
};
const KINDS = ['Float32Array', 'Float64Array', 'Uint8Array', 'Uint32Array', 'Int32Array'] as const,
  actual = Object.fromEntries(KINDS.map((kind) => [kind, globalThis[kind]]));
afterEach(() => {
  vi.restoreAllMocks();
  Object.assign(globalThis, actual);
});

/** Makes allocation number `at` fail; returns a function that counts allocations. */
type Fails = (at: number) => () => number;
const counted: Fails = (at) => {
  let done = 0;
  const { allocate } = Ledger.prototype;
  vi.spyOn(Ledger.prototype, 'allocate').mockImplementation(function (this: Ledger, name, bytes) {
    if (done++ === at) throw new KvError('memory', 'expected room in the budget, got none');
    allocate.call(this, name, bytes);
  });
  return () => done;
};
const arrays: Fails = (at) => {
  let done = 0;
  type Makes = new (...args: unknown[]) => object;
  const construct = (target: Makes, args: unknown[], made: Makes): object => {
    if (typeof args[0] === 'number' && args[0] >= 16 && done++ === at)
      throw new RangeError('Array buffer allocation failed');
    return Reflect.construct(target, args, made) as object;
  };
  Object.assign(
    globalThis,
    Object.fromEntries(KINDS.map((kind) => [kind, new Proxy(actual[kind] as unknown as Makes, { construct })])),
  );
  return () => done;
};

test.each([
  ['the ledger', counted],
  ['an array', arrays],
])('%s that refuses any one allocation: a sentence, nothing half-done goes on, all is given back', async (_, fails) => {
  const whole = new Sequence(model),
    want = await run(whole);
  whole.destroy();
  let refused = 0;
  for (let at = 0, reached = true; reached; at++) {
    const sequence = new Sequence(model),
      count = fails(at),
      error: unknown = await run(sequence).then(
        () => undefined,
        (cause: unknown) => cause,
      );
    reached = count() > at;
    vi.restoreAllMocks();
    Object.assign(globalThis, actual);
    if (error !== undefined) {
      refused++;
      expect(KvError.is(error), `${at}: ${String(error)}`).toBe(true);
      expect((error as Error).message).toMatch(/^memory: (?:not enough: |expected room )[^\n]*$/);
      // a failure in the middle is reported; after a failure before any change the sequence continues normally
      const again: unknown = await run(sequence).catch((cause: unknown) => cause);
      if (again instanceof Error) expect(again.message).toMatch(/^sequence: is unusable: it failed during/);
      else expect(again).toEqual(want);
    }
    sequence.destroy();
    expect(sequence.memory.ledger.bytes()).toMatchObject({ allocated: 0, live: 0 });
  }
  expect(refused).toBeGreaterThan(5);
});
