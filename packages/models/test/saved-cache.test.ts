import { mkdtempSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { compose } from '@kv/core';
import type { Policy } from '@kv/core';
import { h2o, snapkv, streaming } from '@kv/scorers-attention';
import { caote } from '@kv/scorers-caote';
import { knorm } from '@kv/scorers-knorm';
import { sponsorship } from '@kv/scorers-sponsorship';
import { topK } from '@kv/selectors-top-k';
import { fit } from '@kv/transforms-fit';
import fc from 'fast-check';
import { beforeAll, describe, expect, test } from 'vitest';
import { readSafetensors, bytesSource } from '@kv/checkpoints';
import { loadCache, loadModel, saveCache, Sequence, slotScores } from '../src/index.ts';
import { decodeRows, floats, plainRows, slotBytes } from '@kv/engine';
import type { Model } from '../src/index.ts';
import { reference, referenceJson } from '@kv/model-testing/reference';

let model: Model, ids: number[];
beforeAll(async () => {
  model = await loadModel(reference('data/goldens/llama'));
  ({ ids } = referenceJson<{ ids: number[] }>('data/goldens/llama/golden.json'));
});
const policies: readonly Policy[] = [
  compose(streaming(), topK()),
  compose(knorm(), topK()),
  compose(snapkv({ window: 8 }), topK()),
  compose(h2o({ recent: 4 }), topK()),
  compose(snapkv({ window: 6 }), caote(), topK()),
  compose(sponsorship(), topK()),
  compose(h2o({ recent: 4, rows: 'kv' }), topK()),
  compose(snapkv({ window: 6 }), topK(), fit({ queries: 9 })),
];
const saved = async (policy = policies[2], budget = 20): Promise<{ sequence: Sequence; bytes: Uint8Array }> => {
  const sequence = new Sequence(model, undefined, { window: 48 });
  await sequence.prefill(ids.slice(0, 70), { policy, budget, block: 16 });
  return { sequence, bytes: await saveCache(sequence) };
};

describe('a saved cache', () => {
  test('goes on bit for bit as the sequence does, whatever policy, budget, block and window', async () => {
    await fc.assert(
      fc.asyncProperty(
        fc.constantFrom(...policies),
        fc.integer({ min: 12, max: 30 }),
        fc.integer({ min: 5, max: 20 }),
        fc.constantFrom(52, 2048),
        fc.integer({ min: 40, max: 90 }),
        async (policy, budget, block, window, n) => {
          const sequence = new Sequence(model, undefined, { window });
          await sequence.prefill(ids.slice(0, n), { policy, budget, block: window < n ? block : n });
          for (const id of ids.slice(n, n + 3)) await sequence.step(id, 2);
          const bytes = await saveCache(sequence),
            loaded = await loadCache(model, bytes, { policy, window });
          expect(await saveCache(loaded)).toEqual(bytes);
          expect(loaded.memory.ledger.live).toBe(sequence.memory.ledger.live);
          for (const each of [sequence, loaded]) {
            await each.prefill(ids.slice(100, 112));
            for (const id of ids.slice(112, 120)) await each.step(id, 3);
          }
          expect(await loaded.logits()).toEqual(await sequence.logits());
          expect(loaded.kept()).toEqual(sequence.kept());
          expect([loaded.active.last?.kept, loaded.active.last?.budgets, loaded.progress.text.text]).toEqual([
            sequence.active.last?.kept,
            sequence.active.last?.budgets,
            sequence.progress.text.text,
          ]);
          for (const each of [sequence, loaded]) {
            each.destroy();
            expect([each.memory.ledger.live, each.memory.ledger.allocated]).toEqual([0, 0]);
          }
        },
      ),
      { numRuns: Math.min(12, Number(process.env.FC_RUNS ?? 12)) },
    );
  });
  test('holds a ring that began after the slots were moved together', async () => {
    const sequence = new Sequence(model, undefined, { window: 48 });
    await sequence.prefill(ids.slice(0, 70), { policy: policies[0], budget: 20, block: 16 });
    await sequence.prefill(ids.slice(70, 80), { policy: policies[2], budget: 20 });
    const loaded = await loadCache(model, await saveCache(sequence), { policy: policies[2], window: 48 });
    for (const each of [sequence, loaded]) await each.prefill(ids.slice(80, 120), { block: 16 });
    expect(await loaded.logits()).toEqual(await sequence.logits());
    for (const each of [sequence, loaded]) each.destroy();
  });
  test('is a safetensors file that others can read, and loads from disk', async () => {
    const { sequence, bytes } = await saved(),
      file = await readSafetensors(bytesSource(bytes, 'saved'));
    expect(file.tensors.get('layers.0.keys')!.shape).toEqual([2 * 20, 16]);
    expect(file.tensors.has('layers.3.rotations')).toBe(true);
    const path = join(mkdtempSync(join(tmpdir(), 'kv-saved-')), 'cache.safetensors');
    writeFileSync(path, bytes);
    const loaded = await loadCache(model, path);
    expect(loaded.kept()).toEqual(sequence.kept());
    await loaded.append(ids.slice(70, 75));
    for (const each of [sequence, loaded]) each.destroy();
  });
});

describe('in every form', () => {
  let other: Model; // whose heads have 32 channels
  beforeAll(async () => {
    other = await loadModel('embedded');
  });
  const codes = Array.from({ length: 40 }, (_, i) => (i * 31) % 1000),
    policy = policies[2];
  test.each(['f16', 'q8', 'k8v4', 'q4'] as const)(
    '%s goes on bit for bit; an engine without it stores what it says in its own',
    async (form) => {
      const sequence = new Sequence(other, undefined, { cache: form });
      await sequence.prefill(codes.slice(0, 24), { policy, budget: 12, block: 8 });
      const bytes = await saveCache(sequence),
        loaded = await loadCache(other, bytes, { policy }),
        without = await loadCache({ ...other, cacheForms: ['f32'] }, bytes),
        asked = await loadCache(other, bytes, { cache: 'f16' });
      expect([loaded, without, asked].map(({ memory: { cache } }) => [cache.form, cache.liveBytes])).toEqual(
        ([form, 'f32', 'f16'] as const).map((each) => [each, 8 * 2 * 12 * slotBytes(each, 32)]),
      );
      expect(await saveCache(loaded)).toEqual(bytes);
      const [own, decoded] = await Promise.all(
          [sequence, without].map(async ({ memory }) => (await memory.snapshot()).layers[3].slots),
        ),
        numbers = new Float32Array(2 * 12 * 32);
      for (const part of ['keys', 'values'] as const) {
        decodeRows(plainRows(own[part]), 32, 0, 2 * 12, numbers);
        expect(floats(decoded[part].codes)).toEqual(numbers);
      }
      for (const each of [sequence, loaded]) for (const id of codes.slice(24, 27)) await each.step(id);
      expect(await loaded.logits()).toEqual(await sequence.logits());
      for (const each of [sequence, loaded, without, asked]) each.destroy();
    },
  );
});
test('a file of version 1, which names no form, is f32', async () => {
  const { sequence, bytes } = await saved(),
    end = 8 + Number(new DataView(bytes.buffer).getBigUint64(0, true)),
    header = new TextDecoder().decode(bytes.subarray(8, end)),
    older = Buffer.from(header.trimEnd().replace(/(?<=version.":)2,.{2}form.{5}f32../, '1')),
    size = 8 * Math.ceil(older.length / 8),
    file = Buffer.alloc(8 + size + bytes.length - end, ' ');
  expect(older.length).toBeLessThan(Buffer.from(header.trimEnd()).length);
  file.writeBigUInt64LE(BigInt(size));
  file.set(older, 8);
  file.set(bytes.subarray(end), 8 + size);
  const loaded = await loadCache(model, file, { policy: policies[2], window: 48 });
  expect(loaded.memory.cache.form).toBe('f32');
  expect(await saveCache(loaded)).toEqual(bytes);
  for (const each of [sequence, loaded]) each.destroy();
});

describe('is refused in one sentence', () => {
  test('for another model', async () => {
    const { bytes, sequence } = await saved();
    await expect(loadCache({ ...model, fingerprint: 'f'.repeat(64) }, bytes)).rejects.toThrow(
      /^saved cache: expected a cache of .* \(fingerprint ffffffffffff\), got one of another model \([0-9a-f]{12}\)$/,
    );
    sequence.destroy();
  });
  test('for a policy that reads what was not remembered', async () => {
    const { bytes, sequence } = await saved();
    await expect(loadCache(model, bytes, { policy: policies[3] })).rejects.toThrow(
      "the signal attention.accumulated was not remembered while the prompt passed: name the policy in prefill's `policies`",
    );
    await expect(loadCache(model, bytes, { policy: compose(snapkv({ window: 9 }), topK()) })).rejects.toThrow(
      'attention.window(w=9) was not remembered',
    );
    (await loadCache(model, bytes, { policy: policies[1], budget: 12 })).destroy();
    sequence.destroy();
  });
  test('for sums of query heads where those of KV heads were remembered; the other way round they are summed', async () => {
    const [query, kv] = [policies[3], policies[6]],
      [byQuery, byKv] = [await saved(query), await saved(kv)],
      layers = async (bytes: Uint8Array): Promise<unknown> =>
        (await readSafetensors(bytesSource(bytes, 'saved'))).tensors.get('layers.0.accumulated')!.shape;
    expect([await layers(byQuery.bytes), await layers(byKv.bytes)]).toEqual([
      [4, 20],
      [2, 20],
    ]);
    await expect(loadCache(model, byKv.bytes, { policy: query })).rejects.toThrow(
      "the signal attention.accumulated was not remembered while the prompt passed: name the policy in prefill's `policies`",
    );
    const loaded = await loadCache(model, byQuery.bytes, { policy: kv }),
      want = await slotScores(byQuery.sequence, query, 1);
    for (const [g, row] of (await slotScores(loaded, kv, 1)).entries())
      row.forEach((x, i) => expect(x).toBeCloseTo(want[g][i], 5));
    for (const each of [byQuery.sequence, byKv.sequence, loaded]) each.destroy();
  });
  test('when it is cut at any byte, longer, or changed in its header', async () => {
    const { bytes, sequence } = await saved();
    const refused = async (other: Uint8Array): Promise<void> => {
      await expect(loadCache(model, other)).rejects.toThrow(/^saved cache: [^\n]+$/);
    };
    await fc.assert(
      fc.asyncProperty(fc.integer({ min: 0, max: bytes.length - 1 }), (length) => refused(bytes.subarray(0, length))),
      { numRuns: 60 },
    );
    await refused(Uint8Array.of(...bytes.subarray(0, 9000), 0));
    const size = 8 + Number(new DataView(bytes.buffer).getBigUint64(0, true));
    await fc.assert(
      fc.asyncProperty(fc.integer({ min: 0, max: size - 1 }), fc.integer({ min: 1, max: 255 }), async (at, by) => {
        const other = bytes.slice();
        other[at] = other[at] ^ by;
        // A flip may leave another number that is equally valid, such as the count of tokens; it never leaves an
        // inconsistent one.
        await loadCache(model, other).then(
          (loaded) => loaded.destroy(),
          (error: Error) => expect(error.message).toMatch(/^saved cache: [^\n]+$/),
        );
      }),
      { numRuns: 150 },
    );
    sequence.destroy();
  });
  test.each([
    ['tokens', 0, 512, /tokens must be below 512, got 512 at 0/],
    ['layers.1.positions', 3, 0, /layers.1.positions must ascend in each head, got 0 at 3/],
    ['layers.1.positions', 19, 70, /layers.1.positions must be below 70, got 70 at 19/],
    ['layers.2.rotations', 5, 4000, /layers.2.rotations must be below \d+, got 4000 at 5/],
    ['layers.0.ring.positions', 1, 70, /layers.0.ring.positions must be below 70, got 70 at 1/],
    ['layers.0.keys', 7, 0x7fc00000, /layers.0.keys must hold finite numbers, got NaN at 7/],
    ['layers.3.values', 2, 0x7f800000, /layers.3.values must hold finite numbers, got Infinity at 2/],
    ['logits', 9, 0xff800000, /logits must hold finite numbers, got -Infinity at 9/],
  ])('for %s[%i] = %i', async (name, index, bits, message) => {
    const { bytes, sequence } = await saved(),
      size = Number(new DataView(bytes.buffer).getBigUint64(0, true));
    const header = JSON.parse(new TextDecoder().decode(bytes.subarray(8, 8 + size))) as Record<
      string,
      { data_offsets: [number, number] }
    >;
    new DataView(bytes.buffer).setUint32(8 + size + header[name].data_offsets[0] + 4 * index, bits, true);
    await expect(loadCache(model, bytes)).rejects.toThrow(message);
    sequence.destroy();
  });
  test('a manifest that asks for more than the file has allocates nothing', async () => {
    const { bytes, sequence } = await saved(),
      size = Number(new DataView(bytes.buffer).getBigUint64(0, true));
    const text = new TextDecoder()
      .decode(bytes.subarray(8, 8 + size))
      .replaceAll('\\"window\\":8', '\\"window\\":2147483647')
      .replaceAll('"shape":[8,', '"shape":[2147483647,');
    const header = new TextEncoder().encode(text),
      other = new Uint8Array(8 + header.length + bytes.length - 8 - size);
    new DataView(other.buffer).setBigUint64(0, BigInt(header.length), true);
    other.set(header, 8);
    other.set(bytes.subarray(8 + size), 8 + header.length);
    await expect(loadCache(model, other)).rejects.toThrow(/^saved cache: expected/);
    sequence.destroy();
  });
  test.each([0, 6, 9])('a cache of version %s', async (version) => {
    const bytes = Buffer.from((await saved()).bytes);
    bytes.write(String(version), bytes.indexOf('\\"version\\":2') + 12);
    await expect(loadCache(model, bytes)).rejects.toThrow(
      `saved cache: expected a saved cache of version 1 to 5, got version ${version}`,
    );
  });
  test('an empty sequence has nothing to save', async () => {
    await expect(saveCache(new Sequence(model))).rejects.toThrow(
      'saveCache: expected a sequence with at least one token, got an empty one',
    );
  });
});
