import fc from 'fast-check';
import { expect, test } from 'vitest';
import { mulberry } from '@kv/core/shared';
import { createRows, decodeRows, encodeRows } from '../src/cache/encode.ts';
import { cacheForms, movedForm, type CacheForm } from '../src/cache/form.ts';
import { LayerCache } from '../src/cache/layer-cache.ts';
import { Ledger } from '../src/ledger.ts';

const G = 2,
  d = 32;
const CHAIN = ['f32', 'f16', 'q8', 'k8v4', 'q4'] as const;
/** The level of halves. */
const HALF = 1;
/** Bytes of a key and a value of 32 numbers. */
const RECORD = { f32: 256, f16: 128, q8: 72, k8v4: 56, q4: 40 } as const;
/** Bytes of the key alone. */
const KEY = { f32: 128, f16: 64, q8: 36, k8v4: 36, q4: 20 } as const;

/** A slot as it should be: what is read of it, and at which level it is stored. */
interface Slot {
  readonly position: number;
  rotation: number;
  level: number;
  key: Float32Array;
  value: Float32Array;
  /** What they were before anything was rounded. */
  readonly first: readonly Float32Array[];
}
interface State {
  readonly heads: Slot[][];
  position: number;
  rebased: boolean;
  /** Whether keys are halves, since slots were moved and have no levels. */
  moved: boolean;
  /** Whether slots have levels of their own. */
  levelled: boolean;
}

/** Returns what is left of numbers at a level. */
function rounded(level: number, part: 'keys' | 'values', x: Float32Array): Float32Array {
  const rows = createRows(cacheForms[CHAIN[level]][part], d, 1),
    out = new Float32Array(d);
  encodeRows(rows, d, 0, x);
  decodeRows(rows, d, 0, 1, out);
  return out;
}
/** Returns the bits of numbers. */
const bits = (all: readonly Float32Array[]): string =>
  all.map(({ buffer, byteOffset, byteLength }) => Buffer.from(buffer, byteOffset, byteLength).toString('hex')).join('');
/** Turns a key; what is done twice is not what is done at once, as with angles of 32 bits. */
const turn = (x: Float32Array, at: number, from: number, to: number): void => {
  for (let i = at; i < at + d; i++) x[i] = x[i] * 0.5 + 0.01 * (to - from);
};

function check({ heads, rebased, moved, levelled }: State, cache: LayerCache, ledger: Ledger, own: number): void {
  const extra = (rebased ? 8 : 4) + (levelled ? 4 : 0);
  let bytes = 0;
  heads.forEach((slots, g) => {
    const at = g * cache.capacity;
    expect([...cache.positions.subarray(at, at + slots.length)]).toEqual(slots.map(({ position }) => position));
    if (rebased) expect([...cache.rotations!.subarray(at, at + slots.length)]).toEqual(slots.map((s) => s.rotation));
    expect(bits([cache.read('keys', g)])).toBe(bits(slots.map(({ key }) => key)));
    expect(bits([cache.read('values', g)])).toBe(bits(slots.map(({ value }) => value)));
    if (levelled) expect([...cache.levels()![g]]).toEqual(slots.map(({ level }) => level));
    for (const [p, part] of (['keys', 'values'] as const).entries()) {
      const bound = cache.rounding(part, g);
      // what turns in f32 is off by that
      for (const { key, value, first } of slots)
        expect(Math.hypot(...[key, value][p].map((x, i) => x - first[p][i]))).toBeLessThanOrEqual(bound * 1.00001);
    }
    for (const { level } of slots) bytes += RECORD[CHAIN[level]] + extra + (moved ? 2 * d - KEY[CHAIN[level]] : 0);
  });
  if (!levelled) expect(cache.levels()).toBeUndefined();
  expect(cache.form).toBe(moved ? movedForm(CHAIN[own]) : CHAIN[own]);
  expect([cache.liveBytes, ledger.live]).toEqual([bytes, bytes]);
  expect(ledger.allocated).toBe(cache.allocatedBytes);
  expect(cache.allocatedBytes).toBeGreaterThanOrEqual(bytes);
}

const steps = fc.oneof(
  { weight: 3, arbitrary: fc.record({ do: fc.constant('append' as const), count: fc.nat(12) }) },
  {
    weight: 4,
    arbitrary: fc.record({
      do: fc.constant('keep' as const),
      share: fc.constantFrom(0, 0.3, 0.8, 1, 1),
      levels: fc.constantFrom('none', 'mixed', 'coarsest'),
      room: fc.constantFrom(0, 0, 0, 4),
    }),
  },
  {
    weight: 3,
    arbitrary: fc.record({
      do: fc.constantFrom('fork' as const, 'restore' as const, 'rebase' as const, 'write' as const, 'clear' as const),
    }),
  },
);

test('slots at levels of their own behave as lists of rounded numbers, to the bit and the byte', () => {
  fc.assert(
    fc.property(
      fc.constantFrom<CacheForm>('f32', 'f16', 'q8', 'q4'),
      fc.array(steps, { maxLength: 12 }),
      fc.integer(),
      (form, all, seed) => {
        const draw = mulberry(seed),
          own = CHAIN.indexOf(form),
          ledger = new Ledger(),
          numbers = (): Float32Array => Float32Array.from({ length: d }, () => 4 * draw() - 2);
        let state: State = { heads: [[], []], position: 0, rebased: false, moved: false, levelled: false },
          cache = new LayerCache(G, d, ledger, { form });
        for (const step of all) {
          const { heads } = state;
          if (step.do === 'append') {
            const positions = Uint32Array.from({ length: step.count }, (_, i) => state.position + i),
              part = (): Float32Array[][] => heads.map(() => Array.from(positions, numbers)),
              [k, v] = [part(), part()],
              flat = (x: Float32Array[][]): Float32Array => Float32Array.from(x.flat().flatMap((row) => [...row]));
            cache.append(flat(k), flat(v), positions, 0);
            state.position += step.count;
            heads.forEach((slots, g) =>
              positions.forEach((position, i) =>
                slots.push({
                  position,
                  rotation: position,
                  level: own,
                  key: rounded(state.moved ? HALF : own, 'keys', k[g][i]),
                  value: rounded(own, 'values', v[g][i]),
                  first: [k[g][i], v[g][i]],
                }),
              ),
            );
          } else if (step.do === 'keep') {
            const kept = heads.map((slots) => Uint32Array.from(slots.keys()).filter(() => draw() < step.share)),
              levels =
                step.levels === 'none'
                  ? undefined
                  : kept.map((of) => Uint8Array.from(of, () => (step.levels === 'mixed' ? Math.floor(5 * draw()) : 4)));
            cache.keep(kept, step.room, levels);
            if (levels?.some((of) => of.some((level) => level > own))) {
              // keys go back to the form of their level
              if (state.moved) for (const slot of heads.flat()) slot.key = rounded(own, 'keys', slot.key);
              [state.levelled, state.moved] = [true, false];
            }
            if (kept.every(({ length }) => length === 0) && state.levelled) {
              state.levelled = false;
              if (state.rebased) state.moved = own > HALF;
            }
            heads.forEach((slots, g) => {
              const left = Array.from(kept[g], (i) => slots[i]);
              left.forEach((slot, i) => {
                const level = levels?.[g][i] ?? 0;
                if (level <= slot.level) return;
                slot.level = level;
                slot.key = rounded(level, 'keys', slot.key);
                slot.value = rounded(level, 'values', slot.value);
              });
              heads[g] = left;
            });
          } else if (step.do === 'rebase') {
            const next = 3 + Math.max(...heads.map(({ length }) => length));
            cache.rebase(next, turn);
            state.rebased = true;
            if (!state.levelled && own > HALF) {
              if (!state.moved) for (const slot of heads.flat()) slot.key = rounded(HALF, 'keys', slot.key);
              state.moved = true;
            }
            for (const slots of heads)
              slots.forEach((slot, i) => {
                const to = next - slots.length + i;
                if (to === slot.rotation) return;
                turn(slot.key, 0, slot.rotation, to);
                turn(slot.first[0], 0, slot.rotation, to);
                slot.key = rounded(state.moved ? HALF : slot.level, 'keys', slot.key);
                slot.rotation = to;
              });
          } else if (step.do === 'write') {
            for (const [g, slots] of heads.entries()) {
              const slot = slots.at(-1);
              if (!slot) continue;
              const x = numbers();
              cache.write('values', g, slots.length - 1, x);
              slot.value = rounded(slot.level, 'values', x);
              slot.first[1].set(x);
            }
          } else if (step.do === 'clear') {
            cache.clear();
            state = { ...state, heads: [[], []], levelled: false };
          } else {
            // a copy goes on, and the original is given up: neither may see the other
            const copy = step.do === 'fork' ? cache.fork(ledger, 2) : new LayerCache(G, d, ledger, { form });
            if (step.do === 'restore') copy.restore([...cache.lengths], cache.slots());
            cache.clear();
            cache.destroy();
            cache = copy;
          }
          check(state, cache, ledger, own);
        }
        cache.destroy();
        expect([ledger.live, ledger.allocated]).toEqual([0, 0]);
      },
    ),
    { numRuns: 200 },
  );
});

test('levels no finer than the form change nothing', () => {
  const ledger = new Ledger(),
    draw = mulberry(5),
    cache = new LayerCache(G, d, ledger, { form: 'q8' }),
    x = Float32Array.from({ length: G * 9 * d }, () => draw()),
    kept = [Uint32Array.of(0, 2, 7), Uint32Array.of(1, 3, 4)];
  cache.append(
    x,
    x,
    Uint32Array.from({ length: 9 }, (_, i) => i),
  );
  const plain = cache.fork();
  plain.keep(kept);
  cache.keep(kept, 0, [Uint8Array.of(0, 1, 2), Uint8Array.of(2, 2, 2)]);
  expect(cache.slots()).toEqual(plain.slots());
  expect(cache.levels()).toBeUndefined();
});

test('what was rounded off in one form is told in any other that the slots are loaded in, through forks and moves', () => {
  const form = fc.constantFrom<CacheForm>('f32', 'f16', 'q8', 'k8v4', 'q4');
  fc.assert(
    fc.property(fc.array(form, { minLength: 1, maxLength: 4 }), fc.boolean(), fc.integer(), (forms, moves, seed) => {
      const draw = mulberry(seed),
        n = 3,
        x = Float32Array.from({ length: G * n * d }, () => 4 * draw() - 2),
        first = x.slice(),
        ledger = new Ledger(),
        positions = Uint32Array.from({ length: n }, (_, i) => i);
      let cache = new LayerCache(G, d, ledger, { form: forms[0] });
      cache.append(x, x, positions);
      for (const form of forms) {
        const next = new LayerCache(G, d, ledger, { form });
        next.restore([...cache.lengths], cache.slots());
        cache = next.fork();
        if (!moves) continue;
        const before = cache.rotations ?? positions,
          shift = before[0] === 0 ? 2 : 0;
        // turned by mirroring, which is exact
        cache.rebase(n + shift, (row, at) => row.subarray(at, at + d).reverse());
        for (let i = 0; i < G * n; i++) first.subarray(i * d, (i + 1) * d).reverse();
      }
      for (let g = 0; g < G; g++)
        for (const [part, whole] of [
          ['keys', first],
          ['values', x],
        ] as const) {
          const got = cache.read(part, g),
            off = Array.from({ length: n }, (_, i) =>
              Math.hypot(...Array.from({ length: d }, (_, c) => got[i * d + c] - whole[(g * n + i) * d + c])),
            );
          expect(Math.max(...off)).toBeLessThanOrEqual(cache.rounding(part, g));
        }
    }),
  );
});

test('what a file does not say was rounded off moved slots is not known', () => {
  const ledger = new Ledger(),
    [cache, loaded] = [new LayerCache(1, d, ledger, { form: 'q8' }), new LayerCache(1, d, ledger, { form: 'q8' })];
  cache.append(new Float32Array(d).fill(1), new Float32Array(d), Uint32Array.of(0));
  cache.rebase(2, turn);
  loaded.restore([1], { ...cache.slots(), rounded: undefined });
  expect([cache.rounding('keys', 0) < 1, loaded.rounding('keys', 0)]).toEqual([true, Infinity]);
});
