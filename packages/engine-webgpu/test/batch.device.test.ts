import { Sequence } from '@kv/models';
import type { Model } from '@kv/models';
import { stepTogether } from '@kv/engine';
import { parsePolicy } from '@kv/policies';
import { expect } from 'vitest';
import type { RunningDeviceModel } from '../src/index.ts';
import { gpuTests } from './device.ts';
import { both, fixture } from './sequences.ts';

const gpuTest = await gpuTests();

/** What members run: no policy, a cut prompt, events every other token, a view of every token, slots at levels. */
const ways = [
  {},
  { policy: 'snapkv(window=4)', budget: 12 },
  { policy: 'h2o(recent=4)', budget: 12, every: 2 },
  { policy: 'quest(page=4)', budget: 8 },
  { policy: 'snapkv(window=4) | topK | levels(f16=0.5,q8=0.5)', budget: 12, every: 2 },
];
const wayOf = (n: number): (typeof ways)[number] & { policy?: string; budget?: number; every?: number } =>
  ways[n % ways.length];

async function started(model: Model, n: number): Promise<Sequence> {
  const sequence = new Sequence(model),
    { policy, budget } = wayOf(n);
  await sequence.prefill(
    Array.from({ length: 5 + 4 * n }, (_, i) => (i * 37 + 11 * n) % 64),
    policy === undefined ? {} : { policy: parsePolicy(policy), budget },
  );
  return sequence;
}

/** Returns `count` sequences, twice. */
const pairs = async (model: Model, count: number): Promise<readonly [Sequence[], Sequence[]]> => {
  const some = (): Promise<Sequence[]> => Promise.all(Array.from({ length: count }, (_, n) => started(model, n)));
  return [await some(), await some()];
};

gpuTest('tokens of several sequences in one pass give what each gives alone, whatever the others go by', (gpu) =>
  both(gpu, fixture('llama'), async (_, device: Model & RunningDeviceModel) => {
    const [together, alone] = await pairs(device, 9); // more than products take at once
    for (let step = 0; step < 2; step++) {
      const token = (n: number): number => (7 * n + 13 * step) % 64;
      const failed = await stepTogether(
        together.map((sequence, n) => ({ sequence, token: token(n), every: wayOf(n).every })),
      );
      expect(failed).toEqual(together.map(() => undefined));
      for (const [n, sequence] of alone.entries()) {
        await sequence.step(token(n), wayOf(n).every);
        expect(await together[n].logits(), `sequence ${n} at step ${step}`).toEqual(await sequence.logits());
        expect(await together[n].next()).toBe(await sequence.next());
        expect(together[n].kept()).toEqual(sequence.kept());
      }
    }
    expect(together.map(({ memory }) => memory.caches.context.counters.batchedPasses ?? 0)).toEqual([
      2, 2, 2, 2, 2, 2, 2, 2, 0,
    ]);
    for (const sequence of [...together, ...alone]) {
      sequence.destroy();
      expect(sequence.memory.ledger.allocated).toBe(0);
    }
  }),
);

gpuTest('products are recorded once for all', (gpu) =>
  both(gpu, fixture('llama'), async (_, device) => {
    const [together, alone] = await pairs(device, 4),
      { layers, head } = device.decoder;
    let products = 0;
    const programs = [head, ...layers.flatMap(({ project, finish }) => [project, finish])],
      encoded = programs.map((program) => program.encode);
    for (const [i, program] of programs.entries())
      program.encode = (...args) => {
        products++;
        return encoded[i](...args);
      };
    const counted = async (run: () => Promise<unknown>): Promise<number> => {
      products = 0;
      await run();
      return products;
    };
    const each = (all: Sequence[]): { sequence: Sequence; token: number }[] =>
      all.map((sequence) => ({ sequence, token: 3 }));
    expect(await counted(() => stepTogether(each(together)))).toBe(programs.length);
    expect(await counted(() => Promise.all(alone.map((sequence) => sequence.step(3))))).toBe(4 * programs.length);
    for (const sequence of [...together, ...alone]) sequence.destroy();
  }),
);

gpuTest('one that fails, or is cancelled, does not hold the others up', (gpu) =>
  both(gpu, fixture('llama'), async (_, device) => {
    const [[a, broken, b], [own, spare, other]] = await pairs(device, 3);
    broken.destroy();
    const failed = await stepTogether([a, broken, b].map((sequence) => ({ sequence, token: 11 })));
    expect(failed.map((error) => error?.message)).toEqual([
      undefined,
      'sequence: was destroyed: start a new one',
      undefined,
    ]);
    // one whose cache is given back while its token is on its way
    const [going] = await pairs(device, 1);
    const half = stepTogether([a, going[0], b].map((sequence) => ({ sequence, token: 12 })));
    going[0].destroy();
    expect((await half).map((error) => error === undefined)).toEqual([true, false, true]);
    for (const token of [11, 12]) for (const sequence of [own, other]) await sequence.step(token);
    expect(await a.logits()).toEqual(await own.logits());
    expect(await b.logits()).toEqual(await other.logits());
    for (const sequence of [a, b, own, spare, other]) sequence.destroy();
  }),
);
