import fc from 'fast-check';
import { describe, expect, test } from 'vitest';
import { LOWEST } from '@kv/core';
import { cpu, readCpu } from '@kv/cpu';
import type { Kernel } from '@kv/core';
import { agree, lengthsOf } from './agree.ts';
import { dims, nd, numbers, rows, specs, tensor } from './arrays.ts';
import type { Spec } from './arrays.ts';
import { validOf } from './ops.oracle.ts';
import * as oracle from './slots.oracle.ts';

const { ops } = cpu;
/** `share` of the usual number of cases. */
const prop = <T>(arbitrary: fc.Arbitrary<T>, check: (x: T) => void, share = 1): void =>
  fc.assert(fc.property(arbitrary, check), {
    numRuns: Math.ceil(share * (fc.readConfigureGlobal().numRuns ?? 100)),
  });
const valid =
  (spec: Spec) =>
  (r: number): number =>
    validOf(rows(spec), r);
const plane: fc.Arbitrary<Spec> = dims.chain(([kv, , n]) => specs([kv, n]));
const u32 = (data: readonly number[], shape: readonly number[], lengths?: readonly number[]) =>
  ops.from(
    { data: Uint32Array.from(data), shape },
    'u32',
    lengths && ops.from({ data: Uint32Array.from(lengths), shape: [lengths.length] }, 'u32'),
  );

describe('slots', () => {
  test.each(['mean', 'max'] as const)('pool %s, some last slots left raw', (kind) =>
    prop(fc.tuple(plane, fc.constantFrom(1, 3, 5, 7, 2 ** 32 - 1), fc.nat(4)), ([s, kernel, except]) =>
      agree(ops.pool(tensor(s), { kernel, kind, except }), oracle.pool(rows(s), kernel, kind, except), {
        tolerance: 1e-6,
        lengths: valid(s),
      }),
    ),
  );
  test.each(['mean', 'max'] as const)('pool %s with windows narrower, wider and far wider than long rows', (kind) =>
    prop(
      fc.tuple(specs([2, 300]), fc.oneof(fc.nat(200), fc.nat(2 ** 31 - 1)), fc.nat(310)),
      ([s, half, except]) =>
        agree(
          ops.pool(tensor(s), { kernel: 2 * half + 1, kind, except }),
          oracle.pool(rows(s), 2 * half + 1, kind, except),
          { tolerance: 1e-6, lengths: valid(s) },
        ),
      0.3, // the oracle looks at every slot of every window
    ),
  );
  test('an even kernel is an error', () =>
    expect(() => ops.pool(ops.from({ data: [1, 2], shape: [1, 2] }), { kernel: 2, kind: 'mean' })).toThrow(
      'kernel must be an odd whole number, got 2',
    ));
  test.each(['row', 'all'] as const)('rank over %s, ties to the lower slot, then the lower row', (over) =>
    prop(plane, (s) => agree(ops.rank(tensor(s), over), oracle.rank(rows(s), over), { lengths: valid(s) })),
  );
  test('lastSlots', () =>
    prop(fc.tuple(plane, fc.nat(12)), ([s, w]) => agree(ops.lastSlots(tensor(s), w), oracle.lastSlots(rows(s), w))));
  test('fill takes over shape and raggedness', () =>
    prop(plane, (s) => {
      const x = ops.fill(tensor(s), 3);
      expect(x.shape).toEqual(s.shape);
      expect(lengthsOf(x)).toEqual(s.lengths && [...s.lengths]);
      expect(readCpu(x).data.every((v) => v === 3)).toBe(true);
    }));
  test('take looks up rows of a table, plain or of vectors', () =>
    prop(
      dims.chain(([kv, group, n, d]) =>
        fc.tuple(
          specs([kv, 5, d], { dense: true }),
          specs([kv, 5], { dense: true }),
          fc.array(fc.nat(4), { minLength: kv * group * n, maxLength: kv * group * n }),
          fc.constant([kv, kv * group, n] as const),
        ),
      ),
      ([wide, flat, index, [kv, h, n]]) => {
        const at = u32(index, [h, n]),
          g = (r: number): number => Math.floor(r / (h / kv));
        const a = readCpu(ops.take(tensor(flat), at)),
          b = readCpu(ops.take(tensor(wide), at)),
          d = wide.shape[2];
        index.forEach((i, k) => {
          const r = Math.floor(k / n);
          expect(a.data[k]).toBe(nd(flat).get(g(r), i));
          for (let c = 0; c < d; c++) expect(b.data[k * d + c]).toBe(nd(wide).get(g(r), i, c));
        });
      },
    ));
  test('an index beyond the table is an error', () =>
    expect(() => ops.take(ops.from({ data: [1], shape: [1, 1] }), u32([1], [1, 1]))).toThrow(
      'index 1 at row 0, slot 0 must be below 1',
    ));
  test.each(['mean', 'sum', 'max'] as const)('groupSlots %s', (kind) =>
    prop(
      dims.chain(([kv, group, n]) =>
        fc.tuple(
          specs([kv * group, n]),
          fc.array(fc.nat(3), { minLength: kv * n, maxLength: kv * n }),
          fc.constant([kv, n] as const),
        ),
      ),
      ([s, ids, shape]) => {
        const groups = u32(ids, shape);
        agree(
          ops.groupSlots(kind, tensor(s), groups, 4),
          oracle.groupSlots(
            kind,
            rows(s),
            { shape: [...shape], get: (r: number, i: number) => ids[r * shape[1] + i] } as never,
            4,
          ),
          { tolerance: 1e-6 },
        );
      },
    ),
  );
});

describe('select', () => {
  const cases = dims.chain(([kv, group, n]) =>
    fc.constantFrom(1, kv, kv * group).chain((r) =>
      fc.record({
        scores: specs([r, n]),
        budgets: fc.array(fc.nat(n + 2), { minLength: kv * group, maxLength: kv * group }),
        forced: fc.option(specs([kv, n], { dense: true })),
        banned: fc.option(specs([1, n], { dense: true })),
        active: fc.option(fc.array(fc.nat(1), { minLength: kv * group, maxLength: kv * group })),
      }),
    ),
  );
  test('forced ones, then the best, ties to the lower slot, never a banned one', () =>
    prop(cases, ({ scores, budgets, forced, banned, active }) => {
      const rare = (s: Spec | null) => s && ops.atLeast(tensor(s), 2),
        back = (s: Spec | null) => {
          const x = nd(s!);
          return { shape: [...s!.shape], get: (r: number, i: number) => Number(x.get(r, i) >= 2) } as never;
        };
      const kept = ops.select(tensor(scores), ops.from({ data: budgets, shape: [budgets.length, 1] }), {
        forced: rare(forced) ?? undefined,
        banned: rare(banned) ?? undefined,
        active: active ? ops.from({ data: active, shape: [active.length, 1] }) : undefined,
      });
      const { data, shape, lengths } = readCpu(kept),
        slots = shape[1];
      expect(Array.from(lengths!, (c, r) => [...data.subarray(r * slots, r * slots + c)])).toEqual(
        oracle.select(rows(scores), budgets, {
          forced: forced ? back(forced) : undefined,
          banned: banned ? back(banned) : undefined,
          active: active ? ({ shape: [active.length, 1], get: (r: number) => active[r] } as never) : undefined,
        }),
      );
    }));
  test('all forced slots stay even beyond the budget', () =>
    expect(
      lengthsOf(
        ops.select(ops.from({ data: [1, 2, 3], shape: [1, 3] }), ops.from({ data: [1], shape: [1, 1] }), {
          forced: ops.from({ data: [1, 0, 1], shape: [1, 3] }),
        }),
      ),
    ).toEqual([2]));
  test('mark is the mask of what was kept', () =>
    prop(cases, ({ scores, budgets }) => {
      const x = tensor(scores),
        kept = ops.select(x, ops.from({ data: budgets, shape: [budgets.length, 1] })),
        { data } = readCpu(ops.mark(kept, kept)),
        slots = kept.shape[1],
        sets = oracle.select(rows(scores), budgets, {});
      sets.forEach((set, r) =>
        expect([...data.subarray(r * slots, (r + 1) * slots)]).toEqual(
          Array.from({ length: slots }, (_, i) => Number(set.includes(i))),
        ),
      );
    }));
});

describe('checks and layout', () => {
  test('firstBad finds the first NaN, infinity or number below', () =>
    prop(fc.tuple(plane, fc.nat(30), fc.constantFrom(NaN, Infinity, -Infinity, -1)), ([s, at, bad]) => {
      const data = Float32Array.from({ length: s.shape[0] * s.shape[1] }, numbers(s.seed)),
        place = at % data.length,
        row = Math.floor(place / s.shape[1]);
      data[place] = bad;
      const x = ops.from(
        { data, shape: s.shape },
        'f32',
        s.lengths && ops.from({ data: Uint32Array.from(s.lengths), shape: [s.shape[0]] }, 'u32'),
      );
      const seen = !s.lengths || place % s.shape[1] < s.lengths[row];
      expect(readCpu(ops.firstBad(x, 0)).data[0]).toBe(seen ? place + 1 : 0);
      expect(readCpu(ops.firstBad(x)).data[0]).toBe(seen && !(bad === -1) ? place + 1 : 0);
    }));
  test('reading gives row-major numbers of any layout', () =>
    prop(
      dims.chain(([kv, , n, d]) => specs([kv, n, d], { dense: true })),
      (s) => agree(tensor(s), nd(s)),
    ));
  test('reshape keeps the numbers and refuses another size', () => {
    const x = ops.from({ data: [1, 2, 3, 4], shape: [2, 2] });
    expect(readCpu(ops.reshape(x, [1, 4]))).toMatchObject({ data: Float32Array.of(1, 2, 3, 4), shape: [1, 4] });
    expect(() => ops.reshape(x, [3])).toThrow('[2,2] has 4 elements, [3] 3');
  });
  test('from refuses data that its shape does not fit', () => {
    expect(() => ops.from({ data: [1], shape: [2] })).toThrow('shape [2] needs 2 numbers, got 1');
    expect(() => ops.from({ data: [1], shape: [1, 1, 1, 1] })).toThrow(
      'shape must be 1 to 3 whole numbers, got [1,1,1,1]',
    );
  });
  test('an empty max over slots is the lowest finite f32', () =>
    expect(LOWEST).toBe(-Math.fround(3.4028234663852886e38)));
  test('a kernel runs its reference and names a missing input', () => {
    const twice: Kernel = {
      id: 'twice',
      inputs: { x: 'f32' },
      params: { by: 'f32' },
      ragged: 'x',
      per: 'element',
      wgsl: '',
      output: { dtype: 'f32', shape: ({ x }) => x },
      ref: ({ x }, p, out) => out.set(x.data.map((v) => v * p['by'])),
    };
    const x = ops.from(
      { data: [1, 2, 3, 4], shape: [2, 2] },
      'f32',
      ops.from({ data: Uint32Array.of(1, 2), shape: [2] }, 'u32'),
    );
    const out = ops.kernel(twice, { x }, { by: 2 });
    expect([...readCpu(out).data]).toEqual([2, 4, 6, 8]);
    expect(lengthsOf(out)).toEqual([1, 2]);
    expect(() => ops.kernel(twice, {})).toThrow("expected the input 'x', got none");
  });
  test('a tensor of another backend is refused', () =>
    expect(() => ops.simplex({ shape: [1, 1], dtype: 'f32' })).toThrow('a tensor of another backend came in'));
});
