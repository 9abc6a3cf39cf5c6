import { setFlagsFromString } from 'node:v8';
import { runInNewContext } from 'node:vm';
import { keys } from '@kv/core';
import { compile } from '@kv/core/engine';
import { loadModel, Sequence } from '@kv/models';
import fc from 'fast-check';
import { expect, test } from 'vitest';
import { parsePolicy, policy, policyNames } from '@kv/policies';

setFlagsFromString('--expose-gc');
const collect = runInNewContext('gc') as () => void;

/** Methods that need no sidecar file, and options that could take far more memory than the slots need. */
const texts = [
  ...policyNames.filter((name) => !compile(policy(name)).needs.some(({ cost }) => cost === 'artifact')),
  'snapkv(window=512,kernel=4294967295)',
  'expectedAttention(future=4096)',
  'noncausalAttention(chunk=4294967295)',
  'eachChunk(knorm,size=1)',
];
/** Bytes outside the ledgers: text and its offsets, the last event, logits, angles, and uncollected garbage. */
const CONSTANT = 4e6;

test('what a process holds is what ledgers and scratch say, whatever policy, prompt and block', {
  timeout: 300_000,
}, async () => {
  const model = await loadModel('embedded'),
    { maxPositions, vocab } = model.config;
  /** Returns the bytes of heap, array buffers and the WebAssembly memory that holds caches. */
  const held = async (): Promise<number> => {
    for (let i = 0; i < 3; i++) {
      collect();
      await new Promise((resolve) => setImmediate(resolve));
    }
    const { heapUsed, arrayBuffers } = process.memoryUsage(),
      probe = new Sequence(model);
    await probe.prefill([1]);
    const { data } = probe.memory.caches.reader(0)(keys) as { readonly data: Float32Array };
    probe.destroy();
    return heapUsed + arrayBuffers + data.buffer.byteLength;
  };
  const scratch = (): number => model.scratchBytes?.() ?? 0;
  await fc.assert(
    fc.asyncProperty(
      fc.constantFrom(...texts),
      fc.integer({ min: 600, max: (maxPositions >> 1) - 60 }), // some policies read the prompt twice
      fc.constantFrom(undefined, 64, 300),
      fc.constantFrom('25%', '60%', '100%'),
      async (text, length, block, budget) => {
        const made = parsePolicy(text),
          [before, worked] = [await held(), scratch()],
          sequences = Array.from({ length: 3 }, () => new Sequence(model));
        for (const sequence of sequences) {
          await sequence.prefill(
            Array.from({ length }, (_, i) => (i * 37 + 11) % vocab),
            { policy: made, ...(made.to === 'kept' && { budget }), ...(block && { block }) },
          );
          for (let i = 0; i < 8; i++) await sequence.step(i, 4);
        }
        sequences.push(sequences[0].fork());
        const ledgers = sequences.reduce((sum, { memory }) => sum + memory.ledger.allocated, 0),
          grown = (await held()) - before - (scratch() - worked);
        for (const sequence of sequences) sequence.destroy();
        expect(Math.abs(grown - ledgers), `${ledgers} bytes by ledgers, ${grown} by the process`).toBeLessThan(
          0.2 * ledgers + CONSTANT,
        );
      },
    ),
    { numRuns: 5 },
  );
  model.destroy();
});
