import fc from 'fast-check';
import { createHash } from 'node:crypto';
import { readdirSync, readFileSync } from 'node:fs';
import { describe, expect, test } from 'vitest';
import { tensorTypes, toFloat32, denseRows } from '@kv/checkpoints';
import type { TensorType, MatrixPart } from '@kv/checkpoints';
import { Heap } from '../src/heap.ts';
import { activationBytes, instantiate } from '../src/kernels.ts';
import type { FastModule } from '../src/kernels.ts';
import { isFloat, kindOf, kinds } from '../src/kinds.ts';
import { fastModule } from '../src/module.ts';
import { moduleSource } from '../src/module-bytes.ts';
import { mulberry } from '@kv/core/shared';
import { modules } from './modules.ts';
import { WeightArena } from '../src/weight-arena.ts';
import { ThreadPool } from '../src/index.ts';

type Kind = keyof typeof kinds;
const types = Object.keys(kinds) as Kind[];

/** Whole stored rows of anything finite; scales of blocks of any sign and size, subnormal ones among them. */
function storedRows(type: TensorType, rows: number, inputs: number, seed: number): Uint8Array {
  const random = mulberry(seed),
    { numbers, bytes: size } = tensorTypes[type],
    bytes = Uint8Array.from({ length: (rows * inputs * size) / numbers }, () => 256 * random());
  const half = (at: number): void => {
    const bits = (Math.floor(random() * 24) << 10) | Math.floor(1024 * random()) | (random() < 0.5 ? 0x8000 : 0);
    bytes.set([bits & 255, bits >> 8], at);
  };
  if (type === 'F32')
    new Float32Array(bytes.buffer).set(Float32Array.from({ length: rows * inputs }, () => 4 * random() - 2));
  for (let at = 0; at < bytes.length; at += size)
    if (type === 'BF16') bytes[at + 1] = (bytes[at + 1] & 0x80) | 0x3f;
    else if (type === 'Q6_K') half(at + 208);
    else if (type !== 'F32') {
      half(at);
      if (['Q4_1', 'Q5_1', 'Q4_K', 'Q5_K'].includes(type)) half(at + 2);
    }
  return bytes;
}

/** A weight in panels, with its numbers. */
function placed(fast: FastModule, type: Kind, outputs: number, inputs: number, seed: number) {
  const heap = new Heap(),
    kernels = instantiate(fast, heap.memory),
    kind = kindOf(type),
    bytes = storedRows(type, outputs, inputs, seed),
    rowBytes = bytes.length / outputs,
    size = kernels.panelBytes(kind, inputs),
    panels = heap.allocate(size * Math.ceil(outputs / 16)),
    raw = heap.allocate(16 * rowBytes);
  for (let o = 0; o < outputs; o += 16) {
    const rows = Math.min(16, outputs - o);
    heap.bytes(raw, rows * rowBytes).set(bytes.subarray(o * rowBytes, (o + rows) * rowBytes));
    kernels.pack(kind, raw, rowBytes, rows, inputs, panels + (o / 16) * size);
  }
  return { heap, kernels, kind, panels, size, numbers: toFloat32(type, bytes) };
}

/** What `quantise` promises, from its definition: 8-bit numbers and a scale for each 32. */
function quantised(x: Float32Array): { readonly codes: number[]; readonly scales: number[] } {
  const codes: number[] = [],
    scales: number[] = [];
  for (let b = 0; b < x.length; b += 32) {
    const block = x.subarray(b, b + 32),
      most = block.reduce((top, value) => Math.max(top, Math.abs(value)), 0),
      inverse = most === 0 ? 0 : Math.fround(127 / most);
    scales.push(Math.fround(most / 127));
    for (const value of block) {
      const scaled = Math.fround(value * inverse),
        down = Math.floor(scaled),
        rest = scaled - down;
      codes.push(rest > 0.5 || (rest === 0.5 && down % 2 !== 0) ? down + 1 : down);
    }
  }
  return { codes, scales };
}

const cases = fc
  .record({
    type: fc.constantFrom(...types),
    outputs: fc.integer({ min: 1, max: 50 }),
    blocks: fc.integer({ min: 1, max: 3 }),
    rows: fc.integer({ min: 1, max: 9 }),
    bias: fc.boolean(),
    cut: fc.nat(),
    seed: fc.integer(),
    exact: fc.boolean(),
  })
  .map(({ blocks, exact, type, ...rest }) => ({
    type,
    inputs: blocks * (isFloat(kindOf(type)) ? 7 : Math.max(32, tensorTypes[type].numbers)),
    exact: exact || isFloat(kindOf(type)),
    ...rest,
  }));
type Case = typeof cases extends fc.Arbitrary<infer C> ? C : never;

/** The product of a case, in two ranges of panels, and its float64 self with the sum of absolute terms. */
function product(fast: FastModule, { type, inputs, outputs, rows, bias, cut, seed, exact }: Case) {
  const { heap, kernels, kind, panels, numbers } = placed(fast, type, outputs, inputs, seed),
    random = mulberry(seed + 1),
    room = 4 * Math.ceil(rows / 4),
    wide = 16 * Math.ceil(outputs / 16) + 16,
    x = heap.allocate(4 * room * inputs),
    y = heap.allocate(4 * room * wide),
    added = heap.allocate(4 * outputs),
    scratch = heap.allocate(kernels.SCRATCH.value);
  const given = Float32Array.from({ length: rows * inputs }, () => 6 * random() ** 3 - 3),
    terms = Float32Array.from({ length: outputs }, () => random() - 0.5);
  heap.floats(x, rows * inputs).set(given);
  heap.floats(added, outputs).set(terms);
  heap.floats(y, room * wide).fill(NaN);
  const count = Math.ceil(outputs / 16),
    middle = cut % (count + 1),
    plus = bias ? added : 0;
  for (const [from, to] of [
    [middle, count],
    [0, middle],
  ] as const)
    if (exact)
      kernels.floatProduct(kind, panels, inputs, x, 4 * inputs, rows, y, 4 * wide, outputs, plus, from, to, scratch);
    else {
      const width = activationBytes(fast.form) * inputs,
        codes = heap.allocate(room * width),
        meta = heap.allocate((room * inputs) / 2);
      for (let r = 0; r < rows; r++) {
        // several rows lie in fours
        const [four, lane] = [r - (r % 4), r % 4];
        const [q, beside] = [codes + four * width + 4 * lane, meta + (four * inputs) / 2 + 16 * lane];
        kernels.quantise(x + 4 * r * inputs, inputs, q, beside, rows === 1 ? 1 : 4);
      }
      if (rows === 1) kernels.rowProduct(kind, panels, inputs / 32, codes, meta, y, outputs, plus, from, to, scratch);
      else
        kernels.rowsProduct(
          ...([kind, panels, inputs / 32, codes, meta, rows, y, 4 * wide, outputs, plus, from, to, scratch] as const),
        );
    }
  const got = heap.floats(y, room * wide),
    values = exact ? undefined : quantised(given);
  const want = Array.from({ length: rows * outputs }, (_, at) => {
    const r = Math.floor(at / outputs),
      o = at % outputs;
    let sum = bias ? terms[o] : 0,
      size = Math.abs(sum);
    for (let i = 0; i < inputs; i++) {
      const k = r * inputs + i,
        term = numbers[o * inputs + i] * (values ? values.codes[k] * values.scales[Math.floor(k / 32)] : given[k]);
      sum += term;
      size += Math.abs(term);
    }
    return { sum, size, got: got[r * wide + o] };
  });
  const behind = Array.from({ length: rows }, (_, r) => got[r * wide + outputs]);
  return { want, behind };
}

test('this process has the plain form, and takes one of those that it has', async () => {
  expect(modules[0]?.[1].form).toBe(0);
  expect(modules.map(([, { form }]) => form)).toContain((await fastModule())?.form);
});

describe.each(modules)('%s', (_, fast) => {
  test.each(types)('%s: a panel gives back the numbers of the file, bit for bit', (type) => {
    fc.assert(
      fc.property(fc.integer({ min: 1, max: 40 }), fc.integer(), (outputs, seed) => {
        const inputs = 2 * tensorTypes[type].numbers + (isFloat(kindOf(type)) ? 5 : 0),
          { heap, kernels, kind, panels, size, numbers } = placed(fast, type, outputs, inputs, seed),
          to = heap.allocate(4 * inputs);
        for (let o = 0; o < outputs; o++) {
          kernels.row(kind, panels + Math.floor(o / 16) * size, inputs, o % 16, to);
          expect(heap.floats(to, inputs)).toEqual(numbers.subarray(o * inputs, (o + 1) * inputs));
        }
      }),
      { numRuns: 12 },
    );
  });

  test('a product is the float64 one of the activations in 8 bits (or in f32) within f32 rounding, and nothing more is written', () => {
    fc.assert(
      fc.property(cases, (one) => {
        const { want, behind } = product(fast, one);
        for (const [i, { sum, size, got }] of want.entries())
          if (!(Math.abs(got - sum) <= 2 ** -19 * size + 2 ** -140)) expect.fail(`${i}: ${got} for ${sum} of ${size}`);
        if (one.outputs % 16 !== 0) expect(behind).toEqual(behind.map(() => NaN));
      }),
      { numRuns: 75 },
    );
  });

  test('a NaN among activations, wherever it stands, is the scale of its block, and of no other', () => {
    const heap = new Heap(),
      kernels = instantiate(fast, heap.memory),
      [x, codes, meta] = [4 * 64, 2 * 64, 2 * 16].map((bytes) => heap.allocate(bytes)) as [number, number, number];
    for (let at = 0; at < 32; at++) {
      heap.floats(x, 64).fill(at - 16)[at] = NaN;
      kernels.quantise(x, 64, codes, meta, 1);
      expect([heap.floats(meta, 1)[0], heap.floats(meta + 16, 1)[0]]).toEqual([
        NaN,
        Math.fround(Math.abs(at - 16) / 127),
      ]);
    }
  });

  test.each(types)('%s: inputs and rows beyond what is worked on at a time', (type) => {
    const inputs = isFloat(kindOf(type)) ? 1100 : 2048;
    for (const exact of isFloat(kindOf(type)) ? [true] : [true, false])
      for (const rows of [1, 70])
        for (const { sum, size, got } of product(fast, { ...beyond, type, inputs, rows, exact }).want)
          expect(Math.abs(got - sum)).toBeLessThanOrEqual(2 ** -18 * size);
  });
});

/** The bits of a few rows' product, all at once and one by one. */
function few(fast: FastModule, { type, inputs, outputs, rows, bias, seed, exact }: Case) {
  const { heap, kernels, kind, panels } = placed(fast, type, outputs, inputs, seed),
    random = mulberry(seed + 1),
    room = 4 * Math.ceil(rows / 4),
    wide = 16 * Math.ceil(outputs / 16) + 16,
    width = activationBytes(fast.form) * inputs,
    count = Math.ceil(outputs / 16);
  const [x, y, added] = [4 * room * inputs, 4 * room * wide, 4 * outputs].map((bytes) => heap.allocate(bytes)),
    scratch = heap.allocate(kernels.SCRATCH.value),
    plus = bias ? added : 0;
  heap.floats(x, rows * inputs).set(Float32Array.from({ length: rows * inputs }, () => 6 * random() ** 3 - 3));
  heap.floats(added, outputs).set(Float32Array.from({ length: outputs }, () => random() - 0.5));
  const codes = heap.allocate(room * width + 64),
    meta = heap.allocate((room * inputs) / 2 + 64);
  const bits = (): Uint32Array => heap.words(y, rows * wide).slice(),
    clear = (): unknown => heap.floats(y, room * wide).fill(NaN);
  clear();
  if (exact)
    kernels.fewFloats(kind, panels, inputs, x, 4 * inputs, rows, y, 4 * wide, outputs, plus, 0, count, scratch);
  else {
    for (let r = 0; r < rows; r++) {
      const [four, lane] = [r - (r % 4), r % 4];
      kernels.quantise(
        ...([x + 4 * r * inputs, inputs, codes + four * width + 4 * lane] as const),
        ...([meta + (four * inputs) / 2 + 16 * lane, 4] as const),
      );
    }
    const blocks = inputs / 32;
    kernels.fewProduct(kind, panels, blocks, codes, meta, rows, y, 4 * wide, outputs, plus, 0, count, scratch);
  }
  const together = bits();
  clear();
  for (let r = 0; r < rows; r++) {
    const [from, to] = [x + 4 * r * inputs, y + 4 * r * wide];
    if (exact) {
      kernels.floatProduct(kind, panels, inputs, from, 0, 1, to, 0, outputs, plus, 0, count, scratch);
      continue;
    }
    kernels.quantise(from, inputs, codes, meta, 1);
    kernels.rowProduct(kind, panels, inputs / 32, codes, meta, to, outputs, plus, 0, count, scratch);
  }
  return { together, alone: bits() };
}

describe.each(
  modules.flatMap(([name, fast]) =>
    (fast.form === 2 ? ([0, fast.wide] as const) : ([fast.wide] as const)).map(
      (wide) => [name, wide, { ...fast, wide }] as const,
    ),
  ),
)('%s, wide %i', (_name, _wide, fast) => {
  test('of a few rows at once each is, to the bit, what it is by itself', () => {
    fc.assert(
      fc.property(cases, (one) => {
        const { together, alone } = few(fast, one);
        expect(together).toEqual(alone);
      }),
      { numRuns: 75 },
    );
    for (const type of types)
      for (const exact of isFloat(kindOf(type)) ? [true] : [true, false]) {
        const { together, alone } = few(fast, {
          ...beyond,
          type,
          exact,
          rows: 5,
          inputs: isFloat(kindOf(type)) ? 1100 : 2048,
        });
        expect(together, type).toEqual(alone);
      }
  });
});
const beyond = { outputs: 20, bias: true, cut: 1, seed: 7 };

/** Stored rows of MXFP4, block by block of these exponents and any codes; a block of zeros may have any exponent. */
function mxRows(rows: number, inputs: number, exponents: readonly number[], seed: number): Uint8Array {
  const random = mulberry(seed),
    bytes = Uint8Array.from({ length: (rows * inputs * 17) / 32 }, () => 256 * random());
  for (let at = 0, block = 0; at < bytes.length; at += 17, block++)
    if (random() < 0.2) bytes.fill(random() < 0.5 ? 0x00 : 0x88, at + 1, at + 17);
    else bytes[at] = exponents[block % exponents.length];
  return bytes;
}

test.each([
  ['IQ4_NL', 'Q8_0', (rows: number, inputs: number, seed: number) => storedRows('IQ4_NL', rows, inputs, seed)],
  ['MXFP4', 'Q8_0', (rows: number, inputs: number, seed: number) => mxRows(rows, inputs, [104, 120, 127, 143], seed)],
  ['MXFP4', 'BF16', (rows: number, inputs: number, seed: number) => mxRows(rows, inputs, [0, 103, 144, 252], seed)],
] as const)('%s is held as %s, which gives back the numbers of the file, bit for bit', async (type, as, stored) => {
  const pool = await ThreadPool.start(modules[0][1], 1, () => {}),
    { heap, kernels } = pool,
    inputs = 64,
    to = heap.allocate(4 * inputs);
  await fc.assert(
    fc.asyncProperty(
      fc.array(fc.integer({ min: 1, max: 40 }), { minLength: 1, maxLength: 3 }),
      fc.integer(),
      async (all, seed) => {
        const parts = all.map((rows, i): MatrixPart => ({ type, rows, bytes: stored(rows, inputs, seed + i) })),
          outputs = all.reduce((sum, rows) => sum + rows, 0),
          arena = new WeightArena(pool, true),
          held = await arena.weight({ outputs, inputs, parts });
        const kind = kindOf(as);
        expect(held.every((part) => part.kind === kind || outputs < 4)).toBe(true); // few blocks may all be zeros
        let row = 0;
        for (const part of held)
          for (let r = 0; r < part.rows; r++, row++) {
            kernels.row(part.kind, part.at + Math.floor(r / 16) * part.size, inputs, r % 16, to);
            expect(heap.floats(to, inputs).slice()).toEqual(denseRows({ outputs, inputs, parts }, row, 1));
          }
        expect(row).toBe(outputs);
        arena.free();
      },
    ),
    { numRuns: 20 },
  );
  pool.destroy();
});

test('forms give the same numbers: the relaxed ones bit for bit', () => {
  fc.assert(
    fc.property(cases, (one) => {
      const relaxed = modules.filter(([, { form }]) => form > 0),
        [first, ...others] = relaxed.map(([, fast]) => product(fast, one).want.map(({ got }) => got));
      for (const other of others) expect(other).toEqual(first);
    }),
    { numRuns: 30 },
  );
});

test('the module was built from its sources', () => {
  const folder = new URL('../kernel/', import.meta.url),
    hash = createHash('sha256');
  const shared = ['kernel', 'pairs', 'extents', 'view'].map((name) => `../../cpu/kernel/${name}.ts`);
  for (const name of [...readdirSync(folder).sort(), ...shared])
    hash.update(readFileSync(new URL(name, folder), 'utf8'));
  expect(hash.digest('hex')).toBe(moduleSource);
});
