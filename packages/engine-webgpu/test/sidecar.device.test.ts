import { commonHeads } from '@kv/engine';
import { mkdtempSync, readdirSync, rmSync, symlinkSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { generate } from '@kv/models';
import { parsePolicy } from '@kv/policies';
import { GATE_FILE, gateFile } from '@kv/scorers-gate';
import { Q_FILTERS_FILE, qFiltersFile } from '@kv/scorers-keys';
import { expect } from 'vitest';
import { gpuTests } from './device.ts';
import { both, fixture, onDevice, said } from './sequences.ts';

const gpuTest = await gpuTests();

gpuTest(
  'what a file next to the model holds is there before the prompt: in blocks every layer evicts as it passes, as on the host',
  async (gpu) => {
    const from = fixture('llama'),
      folder = mkdtempSync(join(tmpdir(), 'kv-sidecar-'));
    for (const file of readdirSync(from)) symlinkSync(join(from, file), join(folder, file));
    try {
      await both(gpu, folder, async (host, device) => {
        const { layers } = host.config,
          { kvHeads, headDim } = commonHeads(host.config),
          random = (seed: number): Float32Array =>
            Float32Array.from({ length: kvHeads * headDim }, (_, i) => Math.sin(seed + i * i));
        writeFileSync(
          join(folder, Q_FILTERS_FILE),
          qFiltersFile(Array.from({ length: layers }, (_, l) => ({ kvHeads, headDim, filters: random(l) }))),
        );
        const options = {
          ids: Array.from({ length: 48 }, (_, i) => (i * 37 + 11) % 64),
          policy: parsePolicy('qfilter'),
          budget: 16,
          block: 12,
          maxNewTokens: 3,
        };
        const want = await generate(host, options),
          got = await onDevice(gpu, device, options, ({ events = 0 }) => events);
        expect(want.report.counts['events']).toBe(3); // after 24, 36 and 48 tokens
        expect(want.report.mostSlots).toBe(16 + 12);
        expect(got.tokens).toEqual(want.tokens);
        expect(said(got.report)).toEqual(said(want.report));
      });
    } finally {
      rmSync(folder, { recursive: true });
    }
  },
);

gpuTest(
  'what a gate makes of inputs goes with its slots, as on the host: linear, and with a hidden map',
  async (gpu) => {
    const from = fixture('llama');
    for (const units of [0, 5]) {
      const folder = mkdtempSync(join(tmpdir(), 'kv-gate-'));
      for (const file of readdirSync(from)) symlinkSync(join(from, file), join(folder, file));
      try {
        await both(gpu, folder, async (host, device) => {
          const { layers, hidden: width } = host.config,
            { kvHeads } = commonHeads(host.config),
            sines = (count: number, by: number): Float32Array =>
              Float32Array.from({ length: count }, (_, i) => Math.sin(by * (i + 1))),
            affine = (outputs: number, inputs: number, by: number) => ({
              weight: sines(outputs * inputs, by),
              bias: sines(outputs, by),
            });
          writeFileSync(
            join(folder, GATE_FILE),
            gateFile(
              Array.from({ length: layers }, (_, l) => ({
                width,
                kvHeads,
                ...(units > 0 && { hidden: affine(units, width, 2.7 + l) }),
                output: affine(kvHeads, units || width, 1.3 + l),
              })),
            ),
          );
          const ids = Array.from({ length: 48 }, (_, i) => (i * 37 + 11) % 64);
          // heads of as many slots; heads of different numbers, and a view
          const policies =
            units === 0
              ? ['gate | topK | cadence(every=2)']
              : ['gate | adaKV | topK | cadence(every=2)', 'view(gate | topK, budget=12)'];
          for (const policy of policies) {
            const options = {
              ids,
              policy: parsePolicy(policy),
              ...(!policy.startsWith('view') && { budget: 16, block: 20 }),
              maxNewTokens: 6,
            };
            const want = await generate(host, options),
              got = await generate(device, options);
            expect(got.tokens, policy).toEqual(want.tokens);
            expect(said(got.report), policy).toEqual(said(want.report));
          }
        });
      } finally {
        rmSync(folder, { recursive: true });
      }
    }
  },
);
