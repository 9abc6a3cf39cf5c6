import { readFileSync } from 'node:fs';
import type { Gpu } from '@kv/gpu';
import { loadModel } from '@kv/models';
import { attend, Ledger, layerAttention, LayerCache, linearEngine, referenceLinear } from '@kv/engine';
import type { HostModel } from '@kv/models';
import type { Attend } from '@kv/engine';
import { expect } from 'vitest';
import { familyFiles, wanted } from './families.ts';
import { golden } from './goldens.ts';
import { fixture } from './sequences.ts';
import { gpuAttend, gpuEngine } from '../src/index.ts';
import { gpuTests } from './device.ts';

const gpuTest = await gpuTests();

/** Ids through a model in blocks; the logits of every block's last token. */
async function run(
  { decoder, config }: HostModel,
  attends: Attend,
  ids: readonly number[],
  block: number,
): Promise<Float32Array[]> {
  const caches = Array.from(
      { length: config.layers },
      () => new LayerCache(config.kvHeads, config.headDim, new Ledger()),
    ),
    out: Float32Array[] = [];
  for (let at = 0; at < ids.length; at += block) {
    const part = ids.slice(at, at + block),
      positions = Uint32Array.from(part, (_, i) => at + i);
    let x = decoder.embed(part);
    for (const [layer, cache] of caches.entries()) {
      const { q, k, v } = await decoder.project(layer, x, positions, ids.length);
      cache.append(k, v, positions);
      x = await decoder.finish(
        layer,
        x,
        await attends({ q, queryPositions: positions, cache, ...layerAttention(config, layer) }),
      );
    }
    out.push(await decoder.logits(x.slice(-config.hidden)));
  }
  return out;
}

/** max |a - b| over max |b|. */
function relative(a: Float32Array, b: ArrayLike<number>): number {
  let [difference, size] = [0, 0];
  for (let i = 0; i < b.length; i++)
    [difference, size] = [Math.max(difference, Math.abs(a[i] - b[i])), Math.max(size, Math.abs(b[i]))];
  return difference / size;
}

/**
 * The model on the device, attention included, agrees with the plain loops within `bound` of the largest logit,
 * prefilled in blocks.
 */
async function agrees(
  gpu: Gpu,
  path: string,
  ids: readonly number[],
  blocks: readonly number[],
  bound = 1e-5,
): Promise<Float32Array> {
  const host = await loadModel(path, { engine: linearEngine(referenceLinear) }),
    device = await loadModel(path, { engine: gpuEngine(gpu) });
  let last = new Float32Array(0);
  for (const block of blocks) {
    const want = await run(host, attend, ids, block),
      got = await run(device, gpuAttend(gpu, 1), ids, block);
    for (const [i, w] of want.entries())
      expect(relative(got[i], w), `${path}, block ${i} of ${block}`).toBeLessThan(bound);
    last = got.at(-1) as Float32Array<ArrayBuffer>;
  }
  host.destroy();
  device.destroy();
  return last;
}

for (const [name, file] of familyFiles)
  gpuTest(`${name}/${file} as the plain loops and as transformers`, async (gpu) => {
    const [{ ids, logits }] = wanted(name, file);
    expect(
      relative(await agrees(gpu, fixture(`${name}/${file}`), ids, [ids.length - 1]), logits[ids.length - 1]),
    ).toBeLessThan(1e-5);
  });

gpuTest('qwen3, and the embedded model', async (gpu) => {
  const qwen3 = golden('qwen3'),
    { ids } = JSON.parse(readFileSync(`${qwen3}/golden.json`, 'utf8')) as { ids: number[] };
  await agrees(gpu, qwen3, ids.slice(0, 24), [23]);
  await agrees(
    gpu,
    'embedded',
    Array.from({ length: 34 }, (_, i) => (i * 37 + 11) % 1024),
    [33],
    1e-4,
  );
});
