import fc from 'fast-check';
import { describe, expect, test } from 'vitest';
import {
  allowanceOf,
  budgetOption,
  budgetText,
  compile,
  expectBudget,
  fitValue,
  formNames,
  mostKept,
  parseBudget,
} from '@kv/core/engine';
import { compose, keys, protect, scorer, slotsOf } from '@kv/core';
import type { Budget, FormName, SlotBytes } from '@kv/core';
import { topK } from '../compose/pieces.ts';

/** A policy that evicts and forces this many slots in every head. */
const forcing = (forced: number): Parameters<typeof allowanceOf>[0] => ({
  label: 'window ∘ topK',
  methodName: 'window ∘ topK',
  evicts: true,
  protectedSpans: [],
  choosesBudget: false,
  open: false,
  raises: false,
  minSlots: (slots) => Math.min(slots, forced),
  least: (slots, budget) => Math.max(budget, Math.min(slots, forced)),
  forcers: () => ['window'],
  budgetHint: () => `window forces ${forced}`,
});

/** Sizes of slots of a cache: any bytes a slot, coarser forms below finer ones. */
const sizes = fc
  .record({
    heads: fc.integer({ min: 1, max: 300 }),
    each: fc.tuple(...formNames.map(() => fc.integer({ min: 5, max: 4000 }))),
    form: fc.constantFrom(...formNames),
    moved: fc.constantFrom(0, 4),
  })
  .map(({ heads, each, form, moved }): SlotBytes => {
    const bytesOf = (name: FormName): number => heads * [...each].sort((a, b) => b - a)[formNames.indexOf(name)];
    return { form, bytesPerSlot: bytesOf(form) + heads * moved, bytesOf };
  });
const tokens = fc.integer({ min: 1, max: 100_000 });

describe('a budget in bytes', () => {
  test('is the most slots whose bytes do not exceed it, whatever the number of tokens', () => {
    fc.assert(
      fc.property(sizes, fc.integer({ min: 1, max: 2 ** 40 }), tokens, (slot, extra, n) => {
        const bytes = slot.bytesPerSlot + extra,
          { slots, ...rest } = allowanceOf(forcing(0), { bytes }, n, { sizes: slot });
        expect(slots * slot.bytesPerSlot).toBeLessThanOrEqual(bytes);
        expect((slots + 1) * slot.bytesPerSlot).toBeGreaterThan(bytes);
        expect(rest).toEqual({ bytes });
      }),
    );
  });
  test('allows no fewer slots where it is larger', () => {
    fc.assert(
      fc.property(sizes, fc.integer({ min: 0, max: 2 ** 30 }), fc.integer({ min: 0, max: 2 ** 30 }), (slot, a, b) => {
        const of = (bytes: number): number => slotsOf({ bytes: slot.bytesPerSlot + bytes }, 1, slot);
        expect(of(a + b)).toBeGreaterThanOrEqual(of(a));
      }),
    );
  });
  test('is never exceeded for what is forced: the policy is refused, however the budget is written', () => {
    fc.assert(
      fc.property(sizes, fc.integer({ min: 1, max: 500 }), fc.integer({ min: 1, max: 500 }), (slot, forced, slots) => {
        const budget = { bytes: slots * slot.bytesPerSlot };
        const run = (): unknown => allowanceOf(forcing(forced), budget, 1000, { sizes: slot });
        if (forced > slots)
          expect(run).toThrow(
            `budget: ${slots} slot${slots === 1 ? '' : 's'}, which ${budgetText(budget)} hold, ${slots === 1 ? 'is' : 'are'} fewer than 'window ∘ topK' forces in every head: window forces ${forced}; a slot is ${slot.bytesPerSlot} bytes in ${slot.form}`,
          );
        else expect(run()).toEqual({ slots, ...budget });
      }),
    );
  });
  test.each([
    ['4096B', 23_040, 'q8', ', or a cache in a coarser form'],
    ['1KiB', 1025, 'q4', ''],
  ] as const)('%s below one slot is a sentence', (budget, bytesPerSlot, form, remedy) => {
    const place = { at: '--budget', sizes: { form, bytesPerSlot, bytesOf: () => bytesPerSlot } };
    expect(() => expectBudget(forcing(0), budget, place)).toThrow(
      `--budget: ${budget} hold no slot: one slot in every layer and KV head is ${bytesPerSlot} bytes in ${form}, so expected at least ${bytesPerSlot}B${remedy}`,
    );
  });
  test.each(['64MiB', { bytes: 100 }, '25% of f16'] as const)('%j needs a cache whose slots have a size', (budget) => {
    expect(() => allowanceOf(forcing(0), budget, 100)).toThrow(
      `budget: '${budgetText(budget)}' needs a model's cache, whose slots have a size: here expected slots, or a share such as '25%'`,
    );
    expect(() => expectBudget(forcing(0), budget)).not.toThrow(); // checked where the sizes are known
  });
});

describe('a share of a form', () => {
  const share = fc.integer({ min: 1, max: 100 });
  test('is that share of the bytes of the tokens in that form, and forced slots stay', () => {
    fc.assert(
      fc.property(sizes, share, fc.constantFrom(...formNames), tokens, (slot, percent, of, n) => {
        const whole = n * slot.bytesOf(of),
          asked = allowanceOf(forcing(0), `${percent}% of ${of}`, n, { sizes: slot });
        if (asked.slots > 1) expect(100 * asked.slots * slot.bytesPerSlot).toBeLessThanOrEqual(percent * whole);
        expect(100 * (asked.slots + 1) * slot.bytesPerSlot).toBeGreaterThan(percent * whole);
        expect(asked.share).toBe(`${percent}% of ${of}`);
        expect(allowanceOf(forcing(n), asked.share!, n, { sizes: slot }).slots).toBe(Math.max(n, asked.slots));
      }),
    );
  });
  test('of the form of a cache whose slots never moved is the plain share', () => {
    fc.assert(
      fc.property(sizes, share, tokens, (slot, percent, n) => {
        const still = { ...slot, bytesPerSlot: slot.bytesOf(slot.form) };
        expect(slotsOf(`${percent}% of ${slot.form}`, n, still)).toBe(slotsOf(`${percent}%`, n));
      }),
    );
  });
});

describe('the least budget, where what is forced grows with it', () => {
  const recent = (of: number, less: number) =>
    scorer(
      'recent',
      { needs: [keys], ends: (_o, budget) => ({ first: 4, last: Math.max(0, Math.floor(budget * of) - less) }) },
      ({ ops, keys: k }) => ops.norm(k),
    )();
  const policy = (of: number, less: number, from: number, size: number) =>
    compile(compose(recent(of, less), protect({ spans: [[from, from + size]] }), topK()));
  const numbers = { from: fc.nat(40), size: fc.integer({ min: 1, max: 20 }), budget: fc.integer({ min: 1, max: 60 }) };
  test('is the first that holds all of it, for a context of any size', () => {
    fc.assert(
      fc.property(
        fc.record({
          ...numbers,
          of: fc.integer({ min: 0, max: 99 }),
          less: fc.nat(9),
          slots: fc.integer({ min: 1, max: 9000 }),
        }),
        ({ of, less, from, size, budget, slots }) => {
          const share = of / 100;
          const forced = (held: number): number =>
            Math.max(4, from >= 4 ? 4 + size : from + size) + Math.max(0, Math.floor(held * share) - less);
          let least = budget;
          while (forced(least) > least) least++;
          const { least: found } = policy(share, less, from, size);
          expect(found(Infinity, budget)).toBe(least);
          expect(found(slots, budget)).toBe(Math.max(budget, Math.min(slots, least)));
        },
      ),
    );
  });
  test('is told where it grows almost as the budget does, and where none is enough', () => {
    expect(() => expectBudget(policy(0.999_999, 0, 100, 10), 20)).toThrow(
      /^budget: 20 slots are fewer than 'recent ∘ .*' forces in every head: expected a budget of at least 13000001, as recent and protect\(10 positions\) force them$/,
    );
    fc.assert(
      fc.property(fc.record(numbers), ({ from, size, budget }) => {
        const all = policy(1, 4, from + 4, size);
        expect(() => expectBudget(all, budget + size)).toThrow(
          /forces in every head: expected fewer forced slots, as no budget holds those of recent and protect\(/,
        );
        expect(mostKept(all, '10%', 131_072)).toBe(131_072);
      }),
    );
  });
});

test.each([
  ['1.4%', 5500, 77],
  ['0.1%', 3000, 3],
  ['64.1%', 1000, 641],
] as const)('%s of %i tokens are %i slots', (share, n, slots) => expect(slotsOf(share, n)).toBe(slots));
test('a share is rounded down exactly, however its decimals are held', () => {
  const digits = fc.integer({ min: 0, max: 4 });
  fc.assert(
    fc.property(
      fc.integer({ min: 1, max: 2 ** 24 }),
      fc.integer({ min: 1, max: 100 * 10 ** 4 }),
      digits,
      (n, part, d) => {
        const share = `${(part / 10 ** 4).toFixed(d)}%` as const,
          whole = BigInt(share.replace(/[.%]/g, ''));
        fc.pre(whole > 0n && parseBudget(share) !== undefined);
        const exact = Number((BigInt(n) * whole) / (100n * 10n ** BigInt(d)));
        expect(slotsOf(share as Budget, n)).toBe(Math.max(1, exact));
      },
    ),
    { numRuns: 2000 },
  );
});

test('a budget as text reads back as the same budget', () => {
  const budgets = fc.oneof(
    fc.integer({ min: 1, max: Number.MAX_SAFE_INTEGER }).map((bytes): Budget => ({ bytes })),
    fc.tuple(fc.integer({ min: 1, max: 4096 }), fc.integer({ min: 0, max: 30 })).map(([x, k]): Budget => {
      return { bytes: x * 2 ** k };
    }),
    fc.integer({ min: 1, max: 2 ** 20 }),
    fc.constantFrom<Budget>('25%', '0.5% of k8v4', '1.5GiB', '900KiB', '4096B'),
  );
  fc.assert(
    fc.property(budgets, (budget) => {
      const text = budgetText(budget);
      expect(parseBudget(typeof budget === 'number' ? Number(text) : text)).toEqual(parseBudget(budget));
    }),
  );
});

test.each([
  ['64MiB', { bytes: 2 ** 26 }],
  ['1.5GiB', { bytes: 1.5 * 2 ** 30 }],
  ['900KiB', { bytes: 900 * 1024 }],
  ['4096B', { bytes: 4096 }],
  ['25% of f16', { percent: 25, of: 'f16' }],
  ['0.1KiB', { bytes: 102 }],
  [{ bytes: 7 }, { bytes: 7 }],
])('%j is read', (budget, parsed) => expect(parseBudget(budget)).toEqual(parsed));

test.each([
  ...['1e999GiB', '-1MiB', '0B', '0.5B', '64 MiB', '64MB', '64mib', '64M', 'MiB', '9007199254740993B', '1e3B', '0x10B'],
  ...[`${'9'.repeat(400)}GiB`, '25% of q9', '25% of', '25%of f16', '0% of f16', '101% of f16', '25% of f16 ', '1e1%'],
  ...['25% of constructor', '', ' ', 'full', '٣MiB', 0, -1, 1.5, Number.NaN, Infinity, null, true, [], {}],
  ...[{ bytes: 0 }, { bytes: 1.5 }, { bytes: '64MiB' }, { bytes: Infinity }, { bytes: 1, more: 2 }, { slots: 3 }],
])('%j is no budget', (budget) => {
  expect(parseBudget(budget)).toBeUndefined();
  const refused =
    /must be (?:a whole number of slots of at least 1, a share .* '25% of f16' .*, or bytes such as '64MiB'|in units of|at least the bytes)|must have bytes/;
  expect(() => fitValue('--budget', budgetOption('A budget.'), budget)).toThrow(refused);
  expect(() => slotsOf(budget as Budget, 100)).toThrow(refused);
});

test.each([
  ['2MB', "must be in units of 1,024 bytes (B, KiB, MiB or GiB), such as '2MiB', got '2MB'"],
  ['1.5 gb', "must be in units of 1,024 bytes (B, KiB, MiB or GiB), such as '1.5GiB', got '1.5 gb'"],
  ['64M', "must be in units of 1,024 bytes (B, KiB, MiB or GiB), such as '64MiB', got '64M'"],
  ['512b', "must be in units of 1,024 bytes (B, KiB, MiB or GiB), such as '512B', got '512b'"],
  ['1TiB', "must be in units of 1,024 bytes (B, KiB, MiB or GiB), such as '1024GiB', got '1TiB'"],
  ['0B', "must be at least the bytes of one slot, got '0B'"],
  ['0MB', "must be at least the bytes of one slot, got '0MB'"],
  [{ bytes: 0 }, 'must be at least the bytes of one slot, got { bytes: 0 }'],
  [{ bytes: 1.5 }, 'must have bytes as a positive whole number, got { bytes: 1.5 }'],
  [{ bytes: '2MiB' }, "must have bytes as a positive whole number, got { bytes: '2MiB' }"],
])('%j is refused with what was meant', (budget, sentence) => {
  expect(() => fitValue('--budget', budgetOption('A budget.'), budget)).toThrow(`--budget: ${sentence}`);
  expect(() => slotsOf(budget as Budget, 100)).toThrow(`budget: ${sentence}`);
  const [, meant] = /such as '(.*)', got/.exec(sentence) ?? [];
  if (meant !== undefined) expect(parseBudget(meant)).toBeDefined();
});
