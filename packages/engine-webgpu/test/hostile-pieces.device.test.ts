import { compose, hide } from '@kv/core';
import { cpu } from '@kv/cpu';
import type { Policy } from '@kv/core';
import { hostileCases } from '@kv/laws';
import { hostilePieces } from '@kv/model-testing/hostile-pieces';
import { inTurn } from '@kv/model-testing/in-turn';
import { loadModel, Sequence } from '@kv/models';
import { expect } from 'vitest';
import { gpuRuntime } from '../src/index.ts';
import { gpuTests } from './device.ts';
import { fixture } from './sequences.ts';

const gpuTest = await gpuTests();
const IDS = Array.from({ length: 12 }, (_, i) => (i * 37 + 11) % 64);
const all = hostileCases({ foreign: cpu.ops.from({ data: [1], shape: [1, 1] }), ends: true });
/**
 * The eighth whose turn it is. On the host packages/models/test/hostile runs them all.
 */
const cases = inTurn(all, 8);

/**
 * The most cases of one test, which uses one model for all of them. Tests are split by the time at which a piece is
 * called.
 */
const MOST = 200;
const parts = [...new Set(cases.map(({ when }) => when))].flatMap((when) => {
  const some = cases.filter((one) => one.when === when);
  return Array.from(
    { length: Math.ceil(some.length / MOST) },
    (_, i) => [when, i + 1, some.slice(i * MOST, (i + 1) * MOST)] as const,
  );
});
for (const [when, part, some] of parts)
  gpuTest(`a sequence on a device and a piece that gives what it must not: ${when}, part ${part}`, async (gpu) => {
    const model = await loadModel(fixture('llama'), { runtime: gpuRuntime(gpu) }),
      table = await hostilePieces(() => new Sequence(model), IDS),
      failed: string[] = [];
    for (const one of some)
      await table.run(one).catch((error: unknown) => failed.push(`${one.name}: ${String(error)}`));
    await table.end();
    model.destroy();
    expect(failed).toEqual([]);
  });

gpuTest('what two views mark by numbers whose product is none stays visible, as on the host', async (gpu) => {
  const marks = (x: number) =>
    hide('marks', { during: 'decode' }, ({ ops, at }) => ({
      mask: ops.fill(ops.from({ data: new Float32Array(at.slots), shape: [1, at.slots] }), x),
    }))();
  const logits = async (runtime: object, policy?: Policy): Promise<readonly number[]> => {
    const model = await loadModel(fixture('llama'), runtime),
      sequence = new Sequence(model);
    await sequence.prefill(IDS);
    if (policy) sequence.decodeUnder(policy);
    await sequence.step(1);
    const [row] = await sequence.logits();
    sequence.destroy();
    model.destroy();
    return [...row];
  };
  const device = { runtime: gpuRuntime(gpu) };
  expect(await logits(device, compose(marks(1e-30), marks(1e-30)) as Policy)).toEqual(
    await logits(device, marks(1) as Policy),
  );
});
