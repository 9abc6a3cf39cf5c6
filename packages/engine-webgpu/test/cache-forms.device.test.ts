import { LEVELS } from '@kv/core';
import { cacheForms, LayerCache, Ledger, slotBytes, storedForms, plainRows } from '@kv/engine';
import type { CacheForm, CachePart, LayerSnapshot, Rows, StorageForm } from '@kv/engine';
import type { Gpu } from '@kv/gpu';
import { random } from '@kv/gpu-testing';
import { expect } from 'vitest';
import { encodeDecoded, encodeReplaced } from '../src/operations.ts';
import { DeviceCache } from '../src/sequence/cache.ts';
import type { DeviceScope } from '../src/sequence/device-scope.ts';
import { fromWords } from '../src/sequence/row-words.ts';
import { gpuTests, near } from './device.ts';

const gpuTest = await gpuTests();
const [G, D] = [2, 64],
  PARTS = ['keys', 'values'] as const,
  STORED = Object.keys(cacheForms).filter((form) => form !== 'f32') as CacheForm[];

/** Vectors `[count, D]` of many sizes: rows of zeros, rows of one number, and numbers that halves have as subnormal. */
function vectors(seed: number, count: number): Float32Array {
  const next = random(seed),
    out = new Float32Array(count * D);
  for (let r = 0; r < count; r++) {
    const size = [1, 0, 300, 2 ** -16, 1e5][r % 5],
      same = r % 7 === 3;
    for (let c = 0; c < D; c++) out[r * D + c] = size * (same ? 0.3 : 2 * next() - 1 + (r % 3));
  }
  return out;
}

/** The codes of rows, and their scales by their bits. */
function partsOf({ form, codes, scales }: Rows): { readonly codes: number[]; readonly scales: number[] } {
  const words = (bytes: Uint8Array): Uint16Array => new Uint16Array(bytes.slice().buffer);
  return {
    codes:
      form === 'q4'
        ? [...codes].flatMap((byte) => [byte & 15, byte >> 4])
        : [...(form === 'q8' ? new Int8Array(codes) : words(codes))],
    scales: [...(form === 'q8' ? new Uint32Array(scales.slice().buffer) : words(scales))],
  };
}

/** Expects rows as another processor stores them: a scale is a quotient, which a device may round to a neighbour. */
function expectAlike(got: Rows, want: Rows, what: string): void {
  const [a, b] = [partsOf(got), partsOf(want)];
  for (const part of ['codes', 'scales'] as const) {
    const off = b[part].map((x, i) => Math.abs(x - a[part][i]));
    expect(Math.max(0, ...off), `${what}, ${part}`).toBeLessThanOrEqual(got.form === 'f16' ? 0 : 1);
    if (part === 'codes') expect(off.filter((x) => x > 0).length, what).toBeLessThanOrEqual(off.length / 200);
    expect(a[part]).toHaveLength(b[part].length);
  }
}

const saved = (cache: LayerCache): LayerSnapshot['slots'] => {
  const { form, keys, values, positions } = cache.slots();
  return { form, keys, values, positions };
};

async function rowsOf(gpu: Gpu, cache: DeviceCache, part: CachePart): Promise<Rows> {
  const [{ data }] = await gpu.scope(({ read }) => read([cache[part]]));
  return fromWords(data, storedForms[cache.form as StorageForm][part], D, cache.counts);
}

gpuTest('rows are stored, kept, copied, saved and restored as the host does', async (gpu) => {
  for (const form of STORED) {
    const scope = gpu.open(),
      { commands } = scope,
      device: DeviceScope = { scope, ledger: new Ledger() },
      cache = new DeviceCache(G, D, device, form);
    const slotsOf = async (some: DeviceCache): Promise<LayerSnapshot['slots']> => {
      const [keys, values] = [await rowsOf(gpu, some, 'keys'), await rowsOf(gpu, some, 'values')];
      return { form, keys, values, positions: Uint32Array.from(some.kept().flat()) };
    };
    /** Returns the cache on the host, with the same bits. */
    const hosted = async (some: DeviceCache): Promise<LayerCache> => {
      const host = new LayerCache(G, D, new Ledger(), { form });
      host.restore(some.counts, await slotsOf(some));
      return host;
    };
    const appended = async (first: number, m: number): Promise<void> => {
      const [k, v] = [vectors(first + 1, G * m), vectors(first + 2, G * m)],
        at = Uint32Array.from({ length: m }, (_, i) => first + i),
        host = await hosted(cache);
      host.append(k, v, at);
      cache.grow(m);
      cache.append(commands.upload(k, [G, m, D]), commands.upload(v, [G, m, D]), commands.upload(at, [m]), at, at);
      const slots = await slotsOf(cache);
      for (const part of PARTS)
        expectAlike(plainRows(slots[part]), plainRows(host.slots()[part]), `${form}, ${part} from ${first}`);
      expect(slots.positions).toEqual(host.slots().positions);
    };
    await appended(0, 20);
    const lists = [
        [0, 3, 4, 9, 19],
        [2, 18],
      ].map((list) => Uint32Array.from(list)),
      host = await hosted(cache);
    cache.keep(
      {
        kept: commands.upload(Uint32Array.of(0, 3, 4, 9, 19, 2, 18, 0, 0, 0), [G, 5]),
        counts: commands.upload(Uint32Array.of(5, 2), [G]),
      },
      [5, 2],
    );
    cache.confirm(lists);
    host.keep(lists);
    expect(await slotsOf(cache), form).toEqual(saved(host));
    await appended(20, 3);
    expect(await slotsOf(cache.fork(device)), form).toEqual(await slotsOf(cache));
    const restored = new DeviceCache(G, D, device, form);
    restored.restore(cache.counts, await slotsOf(cache));
    expect(await slotsOf(restored), form).toEqual(await slotsOf(cache));
    const plain = new LayerCache(G, D, new Ledger()),
      [converted, other] = [new DeviceCache(G, D, device, form), new LayerCache(G, D, new Ledger(), { form })];
    plain.append(
      vectors(5, G * 6),
      vectors(6, G * 6),
      Uint32Array.from({ length: 6 }, (_, i) => i),
    );
    for (const each of [converted, other]) each.restore([...plain.lengths], plain.slots());
    expect(await slotsOf(converted), `${form} from f32`).toEqual(saved(other));
    expect(cache.capacity * G * slotBytes(form, D)).toBe(
      [cache.keys, cache.values, cache.positions].reduce(
        (sum, { shape }) => sum + 4 * shape.reduce((a, b) => a * b),
        0,
      ),
    );
    scope.end();
  }
});

gpuTest('pieces read what rows store, and only rows that they change are stored again', async (gpu) => {
  for (const form of ['f16', 'q8', 'q4', 'records'] as const) {
    const slots = 9,
      host = new LayerCache(G, D, new Ledger(), { form: form === 'records' ? 'f32' : form }),
      x = vectors(3, G * slots),
      all = Uint32Array.from({ length: slots }, (_, i) => i);
    host.append(x, x, all);
    if (form === 'records')
      host.keep(
        [all, all],
        0,
        [1, 2].map((by) => Uint8Array.from(all, (i) => (i * by) % LEVELS.length)),
      );
    const scope = gpu.open(),
      { commands } = scope,
      cache = new DeviceCache(G, D, { scope, ledger: new Ledger() }, form === 'records' ? 'f32' : form),
      out = commands.make([G, slots, D]),
      read = async (): Promise<Float32Array> => {
        encodeDecoded(commands, cache.rows('values'), out);
        return (await scope.read([out]))[0].data as Float32Array;
      },
      hosted = (): Float32Array => Float32Array.from([0, 1].flatMap((g) => [...host.read('values', g)]));
    if (form === 'q8' || form === 'q4') {
      // codes of half the range: such a row, stored again, is another one
      const [lengths, halved] = [[...host.lengths], host.slots()],
        { codes } = plainRows(halved.values);
      for (const [i, byte] of codes.entries()) codes[i] = form === 'q4' ? byte & 0x77 : ((byte << 24) >> 25) & 0xff;
      host.clear();
      host.restore(lengths, halved);
    }
    cache.restore([...host.lengths], host.slots());
    const before = hosted();
    expect(await read(), form).toEqual(before);
    const given = before.slice(),
      changed = [1, 7, 12];
    for (const r of changed) {
      given.set(vectors(r, 1), r * D);
      host.write('values', Math.floor(r / slots), r % slots, vectors(r, 1));
    }
    encodeReplaced(commands, cache.rows('values'), commands.upload(given, [G, slots, D]));
    const [got, want] = [await read(), hosted()];
    for (let r = 0; r < G * slots; r++) {
      const [a, b, old] = [got, want, before].map((rows) => rows.subarray(r * D, (r + 1) * D));
      if (!changed.includes(r)) expect(a, form).toEqual(old);
      else near(a, b, () => 0.15 * Math.max(...b.map(Math.abs)), form); // a code of 4 bits may be the next one
    }
    scope.end();
  }
});
