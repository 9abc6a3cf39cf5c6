import { setFlagsFromString } from 'node:v8';
import { runInNewContext } from 'node:vm';
import { loadModel, Sequence } from '@kv/models';
import { inTurn } from '@kv/model-testing/in-turn';
import { policy as policyOf } from '@kv/policies';
import { expect } from 'vitest';
import { gpuRuntime } from '../src/index.ts';
import { gpuTests } from './device.ts';
import { fixture } from './sequences.ts';

const gpuTest = await gpuTests();
setFlagsFromString('--expose-gc');
const collect = runInNewContext('gc') as () => void;

for (const [name, options] of inTurn(
  [
    ['snapkv', { window: 4 }],
    ['adakv', { window: 4 }],
  ] as const,
  2,
))
  gpuTest(
    `past events of a prompt in blocks are let go on a device under ${name}, while tokens are generated too`,
    async (gpu) => {
      const model = await loadModel(fixture('llama'), { runtime: gpuRuntime(gpu) }),
        sequence = new Sequence(model),
        policy = policyOf(name, options),
        ids = Array.from({ length: 60 }, (_, i) => (i * 37 + 11) % 64),
        events: WeakRef<object>[] = [];
      const note = (): void => {
        if (sequence.active.last) events.push(new WeakRef(sequence.active.last));
      };
      for await (const _ of sequence.prefillParts(ids, { policy, budget: 12, block: 4 })) note();
      for (const id of ids.slice(0, 10)) {
        await sequence.step(id, 1);
        note();
      }
      expect(events.length).toBeGreaterThan(15);
      for (let i = 0; i < 3; i++) {
        collect();
        await new Promise((resolve) => setImmediate(resolve));
      }
      // the last one, and the one before it where what made the last still runs out
      expect(events.filter((event) => event.deref() !== undefined).length).toBeLessThanOrEqual(2);
      for (const each of [sequence, model]) each.destroy();
    },
  );
