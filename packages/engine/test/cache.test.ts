import fc from 'fast-check';
import { describe, expect, test } from 'vitest';
import { floats } from '../src/cache/encode.ts';
import { LayerCache } from '../src/cache/layer-cache.ts';
import { Ledger } from '../src/ledger.ts';

interface Slot {
  readonly position: number;
  readonly key: number;
}

/** The model: a list of slots for each head; key numbers are unique, values their negation. */
interface Model {
  heads: Slot[][];
  next: number;
  position: number;
}

interface Real {
  cache: LayerCache;
  readonly ledger: Ledger;
}

const G = 2;
const d = 3;
const slotBytes = 4 * (2 * d + 1);

function check(model: Model, { cache, ledger }: Real): void {
  model.heads.forEach((slots, g) => {
    expect(cache.lengths[g]).toBe(slots.length);
    const at = g * cache.capacity;
    expect([...cache.positions.subarray(at, at + slots.length)]).toEqual(slots.map((s) => s.position));
    const numbers = slots.flatMap(({ key }) => [key, key + 0.25, key + 0.5]);
    expect([...cache.read('keys', g)]).toEqual(numbers);
    expect([...cache.read('values', g)]).toEqual(numbers.map((x) => -x));
  });
  expect(cache.keys.codes.length).toBe(4 * G * cache.capacity * d);
  expect(ledger.live).toBe(slotBytes * model.heads.flat().length);
  expect(ledger.allocated).toBe(slotBytes * G * cache.capacity);
  expect(ledger.peak).toBeGreaterThanOrEqual(ledger.live);
  expect(ledger.peakAllocated).toBeGreaterThanOrEqual(ledger.allocated);
}

class Append implements fc.Command<Model, Real> {
  readonly count: number;
  constructor(count: number) {
    this.count = count;
  }
  check(): boolean {
    return true;
  }
  run(model: Model, real: Real): void {
    const { count } = this;
    const k = new Float32Array(G * count * d);
    const positions = Uint32Array.from({ length: count }, (_, i) => model.position + 2 * i);
    for (let g = 0; g < G; g++)
      for (let i = 0; i < count; i++) {
        const key = model.next++;
        model.heads[g].push({ position: positions[i], key });
        k.set([key, key + 0.25, key + 0.5], (g * count + i) * d);
      }
    model.position += 2 * count;
    const before = real.cache.capacity;
    const need = real.cache.length + count;
    real.cache.append(
      k,
      k.map((x) => -x),
      positions,
    );
    expect(real.cache.capacity).toBeLessThanOrEqual(Math.max(before, need, Math.floor(1.25 * before)));
    check(model, real);
  }
  toString(): string {
    return `append(${this.count})`;
  }
}

class Keep implements fc.Command<Model, Real> {
  readonly share: number;
  readonly room: number;
  constructor(share: number, room: number) {
    this.share = share;
    this.room = room;
  }
  check(): boolean {
    return true;
  }
  run(model: Model, real: Real): void {
    const keeps = (slot: Slot): boolean => (slot.key * 0.618034) % 1 < this.share;
    real.cache.keep(
      model.heads.map((slots) => Uint32Array.from(slots.flatMap((slot, j) => (keeps(slot) ? [j] : [])))),
      this.room,
    );
    model.heads = model.heads.map((slots) => slots.filter(keeps));
    expect(real.cache.capacity).toBeLessThanOrEqual(Math.max(2 * (real.cache.length + this.room), 0));
    check(model, real);
  }
  toString(): string {
    return `keep(${this.share}, ${this.room})`;
  }
}

class Other implements fc.Command<Model, Real> {
  readonly kind: 'reserve' | 'clear' | 'fork';
  readonly room: number;
  constructor(kind: 'reserve' | 'clear' | 'fork', room: number) {
    this.kind = kind;
    this.room = room;
  }
  check(): boolean {
    return true;
  }
  run(model: Model, real: Real): void {
    if (this.kind === 'reserve') {
      const before = real.cache.capacity;
      real.cache.reserve(this.room);
      expect(real.cache.capacity).toBe(Math.max(before, this.room));
    } else if (this.kind === 'clear') {
      real.cache.clear();
      model.heads = model.heads.map(() => []);
    } else {
      // The fork goes on, the original is changed and given up: neither may see the other.
      const fork = real.cache.fork(real.ledger, this.room);
      expect(fork.capacity).toBe(real.cache.length + this.room);
      floats(real.cache.keys.codes).fill(NaN);
      real.cache.destroy();
      real.cache = fork;
    }
    check(model, real);
  }
  toString(): string {
    return `${this.kind}(${this.room})`;
  }
}

describe('LayerCache', () => {
  test('behaves as plain lists under append, keep, reserve, fork and clear; the ledger follows and ends at zero', () => {
    const share = fc.constantFrom(0, 0.1, 0.5, 0.9, 1);
    const commands = fc.commands(
      [
        fc.integer({ min: 0, max: 30 }).map((n) => new Append(n)),
        fc.tuple(share, fc.integer({ min: 0, max: 8 })).map(([s, room]) => new Keep(s, room)),
        fc
          .tuple(
            fc.constantFrom('reserve' as const, 'clear' as const, 'fork' as const),
            fc.integer({ min: 0, max: 40 }),
          )
          .map(([kind, room]) => new Other(kind, room)),
      ],
      { maxCommands: 30 },
    );
    fc.assert(
      fc.property(commands, (run) => {
        const ledger = new Ledger();
        const real: Real = { ledger, cache: new LayerCache(G, d, ledger) };
        fc.modelRun(() => ({ model: { heads: Array.from({ length: G }, () => []), next: 1, position: 0 }, real }), run);
        real.cache.destroy();
        real.cache.destroy();
        expect([ledger.live, ledger.allocated]).toEqual([0, 0]);
      }),
      { numRuns: 100 },
    );
  });

  test('refuses what does not fit, and is as it was', () => {
    const ledger = new Ledger();
    const cache = new LayerCache(G, d, ledger);
    const numbers = Float32Array.from({ length: 3 * G * d }, (_, i) => i);
    cache.append(numbers, numbers, Uint32Array.of(4, 5, 9));
    const before = [ledger.live, ledger.allocated, [...cache.keys.codes], [...cache.positions], [...cache.lengths]];
    expect(() => cache.append(numbers, numbers, Uint32Array.of(10, 11))).toThrowErrorMatchingInlineSnapshot(
      `[KvError: cache: append expects keys and values of 12 numbers for 2 positions, got 18 and 18]`,
    );
    expect(() => cache.append(numbers, numbers, Uint32Array.of(9, 10, 11))).toThrowErrorMatchingInlineSnapshot(
      `[KvError: cache: positions must ascend, got 9 after 9]`,
    );
    expect(() => cache.keep([Uint32Array.of(0)])).toThrowErrorMatchingInlineSnapshot(
      `[KvError: cache: keep expects one list of slots for each of 2 heads, got 1]`,
    );
    expect(() => cache.keep([Uint32Array.of(0), Uint32Array.of(1, 1)])).toThrowErrorMatchingInlineSnapshot(
      `[KvError: cache: kept slots must ascend below 3 in head 1, got 1 at 1]`,
    );
    expect(() => cache.keep([Uint32Array.of(0), Uint32Array.of(3)])).toThrowErrorMatchingInlineSnapshot(
      `[KvError: cache: kept slots must ascend below 3 in head 1, got 3 at 0]`,
    );
    expect([ledger.live, ledger.allocated, [...cache.keys.codes], [...cache.positions], [...cache.lengths]]).toEqual(
      before,
    );
  });
});

describe('Ledger', () => {
  test('means are over samples, weighted; peaks stay', () => {
    const ledger = new Ledger();
    ledger.allocate('cache', 100);
    ledger.use('cache', 40);
    ledger.sample('prefill');
    ledger.use('ring', 20);
    ledger.sample('prefill', 3);
    ledger.release('cache', 40);
    ledger.sample('decode');
    expect([ledger.mean('prefill'), ledger.mean('decode'), ledger.mean('prefill', 'allocated')]).toEqual([55, 20, 100]);
    expect([ledger.peak, ledger.peakAllocated, ledger.live, ledger.entry('cache'), ledger.names()]).toEqual([
      60,
      100,
      20,
      { allocated: 100, live: 0, peak: 40 },
      ['cache', 'ring'],
    ]);
  });

  test('never goes below zero', () => {
    const ledger = new Ledger();
    ledger.use('cache', 4);
    expect(() => ledger.release('cache', 8)).toThrowErrorMatchingInlineSnapshot(
      `[KvError: Ledger: the live bytes of cache must stay an integer of at least 0, got 4 and then -4]`,
    );
    expect(() => ledger.allocate('cache', NaN)).toThrow('must stay an integer');
    expect(ledger.live).toBe(4);
  });
});
