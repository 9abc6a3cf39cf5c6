import { commonHeads } from '@kv/engine';
import { mkdtempSync, readdirSync, rmSync, symlinkSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { generate } from '@kv/models';
import { parsePolicy } from '@kv/policies';
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
