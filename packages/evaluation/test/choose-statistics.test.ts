import { random, wilson } from '@kv/tasks';
import type { Random } from '@kv/tasks';
import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { bisect } from '../src/choose/statistics/bisect.ts';
import { stake } from '../src/choose/statistics/bets.ts';
import { documentsNeeded, lossInterval, smallestShown, tiesWith } from '../src/choose/statistics/loss-interval.ts';
import type { LossKind } from '../src/choose/statistics/losses.ts';
import { race } from '../src/choose/statistics/race.ts';
import { lossText, powerNote } from '../src/choose/statistics/words.ts';

const LEVEL = 0.95;
const alone = (n: number): readonly number[] => [...Array(n).keys()];
const mean = (all: readonly number[]): number => all.reduce((a, b) => a + b, 0) / all.length;

describe('stake', () => {
  it('is the published average of products, term by term', () => {
    fc.assert(
      fc.property(
        fc.array(fc.double({ min: 0, max: 1, noNaN: true }), { maxLength: 12 }),
        fc.double({ min: 0.01, max: 1, noNaN: true }),
        (values, m) => {
          const lambdas = alone(20).map((i) => (i + 1) / (m * 21)),
            products = lambdas.map((lambda) => values.map((x) => 1 + lambda * (x - m)).reduce((a, b) => a * b, 1));
          expect(stake(values, m)).toBeCloseTo(mean(products), 6);
        },
      ),
    );
  });
  it('reaches 20 in at most 5 % of all sequences of a fair game, whenever one stops (every sequence of 10)', () => {
    const values = [0, 0.5, 1],
      crossed = (path: readonly number[], left: number): number =>
        stake(path, 0.5) >= 20 ? 1 : left === 0 ? 0 : mean(values.map((x) => crossed([...path, x], left - 1)));
    const ever = crossed([], 10);
    expect(ever).toBeGreaterThan(0);
    expect(ever).toBeLessThanOrEqual(0.05);
  });
});

/** Probability of each outcome of n draws from `values` with these chances, as counts: no sampling. */
function outcomes(values: readonly number[], chances: readonly number[], n: number): readonly [number[], number][] {
  if (values.length === 1) return [[Array(n).fill(values[0]), chances[0] ** n]];
  return alone(n + 1).flatMap((k) => {
    const choose = alone(k).reduce((ways, i) => (ways * (n - i)) / (i + 1), 1);
    return outcomes(values.slice(1), chances.slice(1), n - k).map(([rest, p]): [number[], number] => [
      [...Array(k).fill(values[0]), ...rest],
      choose * chances[0] ** k * p,
    ]);
  });
}

describe('lossInterval', () => {
  it("is Clopper and Pearson's for answers that changed", () => {
    const of = (lost: number, n: number): readonly [number, number] => {
      const { low, high } = lossInterval(
        alone(n).map((i) => Number(i < lost)),
        alone(n),
        { kind: 'same' },
      );
      return [low, high];
    };
    // by sums of whole binomials in Python
    expect(of(0, 20)).toEqual([0, expect.closeTo(0.1684335, 6)]);
    expect(of(1, 20)).toEqual([expect.closeTo(0.001265089, 8), expect.closeTo(0.2487328, 6)]);
    expect(of(20, 20)).toEqual([expect.closeTo(0.8315665, 6), 1]);
    expect(of(7, 2000)[0]).toBeCloseTo(0.0014083, 6);
  });
  const cases: readonly (readonly [LossKind, readonly number[], prompts: number])[] = [
    ['same', [0, 1], 1],
    ['same', [0, 0.5, 1], 2],
    ['answers', [-1, 0, 1], 1],
    ['answers', [-0.5, 0, 1], 1],
  ];
  it.each(cases)('covers the mean of every distribution (%s, %j), exactly', (kind, values, prompts) => {
    const n = 7;
    for (const a of [0, 0.02, 0.1, 0.3, 0.6])
      for (const b of values.length === 2 ? [1 - a] : [0, 0.05, 0.4].map((part) => part * (1 - a))) {
        const chances = values.length === 2 ? [a, b] : [a, 1 - a - b, b],
          truth = values.reduce((sum, x, i) => sum + x * chances[i], 0);
        const covered = outcomes(values, chances, n).reduce((sum, [drawn, p]) => {
          // a document of two prompts: one of them changed is a half
          const losses = drawn.flatMap((x) => (prompts === 1 ? [x] : [Math.ceil(x), Math.floor(x)])),
            { low, high } = lossInterval(
              losses,
              alone(losses.length).map((i) => Math.floor(i / prompts)),
              { kind },
            );
          return low <= truth + 1e-12 && truth <= high + 1e-12 ? sum + p : sum;
        }, 0);
        expect(covered).toBeGreaterThanOrEqual(LEVEL - 1e-9);
      }
  });
  it('ends where a search over all means says that bets end', () => {
    fc.assert(
      fc.property(fc.array(fc.integer({ min: -4, max: 4 }), { minLength: 1, maxLength: 30 }), (quarters) => {
        const losses = quarters.map((q) => q / 4),
          { low, high, mean: middle } = lossInterval(losses, alone(losses.length), { kind: 'answers' }),
          inside = alone(401)
            .map((i) => i / 200 - 1)
            .filter((m) => {
              const up = stake(
                  losses.map((x) => (x + 1) / 2),
                  (m + 1) / 2,
                ),
                down = stake(
                  losses.map((x) => (1 - x) / 2),
                  (1 - m) / 2,
                );
              return up < 40 && down < 40;
            });
        expect(inside[0] - low).toBeLessThanOrEqual(0.005 + 1e-9);
        expect(inside[0]).toBeGreaterThanOrEqual(low - 1e-9);
        expect(high - inside[inside.length - 1]).toBeLessThanOrEqual(0.005 + 1e-9);
        expect(low <= middle + 1e-9 && middle <= high + 1e-9).toBe(true);
      }),
      { numRuns: 30 },
    );
  });
  it('counts a document once, whatever its number of prompts', () => {
    const long = lossInterval([1, 1, 1, 1, 0, 0], [0, 0, 0, 0, 1, 2], { kind: 'same' });
    expect(long).toMatchObject({ mean: expect.closeTo(1 / 3, 12), n: 6, clusters: 3 });
  });
  it('refuses what is no loss', () => {
    expect(() => lossInterval([], [], { kind: 'same' })).toThrow('expected at least one loss, got none');
    expect(() => lossInterval([-1], [0], { kind: 'same' })).toThrow('expected losses (same) from 0 to 1, got -1');
    expect(() => lossInterval([NaN], [0], { kind: 'answers' })).toThrow('got NaN');
    expect(() => lossInterval([0.5], [0], { kind: 'same' })).toThrow('of 0 or 1, got fractions');
    expect(() => lossInterval([1, 0], [0], { kind: 'same' })).toThrow('for each of 1 prompts, got 2');
    expect(() => race([[0]], [0], { kind: 'same', level: 95 })).toThrow('a level between 0 and 1, got 95');
  });
});

describe('race', () => {
  const table = fc.integer({ min: 2, max: 5 }).chain((candidates) =>
    fc.array(fc.array(fc.integer({ min: 0, max: 1 }), { minLength: candidates, maxLength: candidates }), {
      minLength: 1,
      maxLength: 40,
    }),
  );
  it('never drops what lost least so far, and sorts by mean loss', () => {
    fc.assert(
      fc.property(table, (prompts) => {
        const losses = prompts[0].map((_, c) => prompts.map((row) => row[c])),
          means = losses.map(mean),
          { alive, dropped } = race(losses, alone(prompts.length), { kind: 'same', level: 0.5 });
        expect(alive[0]).toBe(means.indexOf(Math.min(...means)));
        expect(alive.map((c) => means[c])).toEqual([...alive.map((c) => means[c])].sort((a, b) => a - b));
        expect([...alive, ...dropped].sort((a, b) => a - b)).toEqual(alone(losses.length));
      }),
    );
  });
  it('drops what always fails after some documents, out of sixty', () => {
    const losses = alone(60).map((c) => alone(20).map(() => Number(c >= 5)));
    const after = alone(21).find(
      (n) =>
        race(
          losses.map((row) => row.slice(0, n)),
          alone(n),
          { kind: 'same' },
        ).dropped.length === 55,
    );
    expect(after).toBeLessThanOrEqual(12);
    expect(race(losses, alone(20), { kind: 'same' }).alive).toEqual([0, 1, 2, 3, 4]);
  });
  it('counts a document once all its prompts are run, and puts what did not start last', () => {
    const losses = [
      [1, 1, undefined],
      [0, 0, 1],
      [undefined, undefined, undefined],
    ];
    expect(race(losses, [0, 1, 1], { kind: 'same' })).toEqual({ alive: [1, 0, 2], dropped: [] });
    const half = alone(40).map((i) => (i % 2 ? 1 : undefined)),
      none = alone(40).map(() => 0),
      pairsOfOne = alone(40).map((i) => Math.floor(i / 2));
    expect(race([half, none], pairsOfOne, { kind: 'same' }).dropped).toEqual([]);
    expect(race([half, none], alone(40), { kind: 'same' }).dropped).toEqual([0]);
  });
  it('drops one of two equals in at most 5 % of all sequences, whenever one looks', () => {
    const dropped = (first: readonly number[], left: number): number => {
      const second = first.map((loss) => 1 - loss),
        found = race([first, second], alone(first.length), { kind: 'same' }).dropped;
      if (found.includes(0)) return 1;
      return left === 0 ? 0 : mean([0, 1].map((loss) => dropped([...first, loss], left - 1)));
    };
    expect(dropped([], 11)).toBeGreaterThan(0);
    expect(dropped([], 11)).toBeLessThanOrEqual(1 - LEVEL);
  });
  it('compares what went on with what did not on the documents of both', () => {
    const losses = [
      [1, 1, 0, 0, 0, 0],
      [1, 0, undefined, undefined, undefined, undefined],
    ];
    expect(race(losses, alone(6), { kind: 'same' }).alive).toEqual([1, 0]);
  });
  it('with a tolerance drops what loses more, whatever the others lose', () => {
    const losses = [0.3, 0.02, 0].map((share) => alone(100).map((i) => Number(i % 50 < share * 50)));
    expect(race(losses, alone(100), { kind: 'same', tolerance: 0.05 })).toEqual({ alive: [2, 1], dropped: [0] });
  });
});

/** A bed: the loss of each candidate on each document of a large pool; its truth is the mean over the pool. */
type Bed = readonly (readonly number[])[];
/** Documents differ in difficulty, so candidates fail together. */
function bedOf(shares: readonly number[], documents: number, draw: Random): Bed {
  const hard = alone(documents).map(() => draw.next());
  return shares.map((share) => hard.map((h) => Number(draw.next() < Math.min(1, share * 2 * h))));
}
const REPEATS = 200,
  CHOOSING = 24,
  CONFIRMING = 20;
interface Repeat {
  readonly chosen: number;
  readonly dropped: ReadonlySet<number>;
  readonly choosing: readonly number[];
  readonly confirming: readonly number[];
}
/** Chooses as `choose` does, looking after every document; a candidate that is dropped gets no further document. */
function chosen(bed: Bed, draw: Random): Repeat {
  const drawn = alone(CHOOSING + CONFIRMING).map(() => draw.below(bed[0].length)),
    [choosing, confirming] = [drawn.slice(0, CHOOSING), drawn.slice(CHOOSING)],
    losses = bed.map(() => [] as (number | undefined)[]),
    dropped = new Set<number>();
  let best = 0;
  for (const [at, document] of choosing.entries()) {
    for (const [c, row] of losses.entries()) row.push(dropped.has(c) ? undefined : bed[c][document]);
    const found = race(losses, alone(at + 1), { kind: 'same' });
    for (const c of found.dropped) dropped.add(c);
    best = found.alive.find((c) => !dropped.has(c)) ?? best;
  }
  return { chosen: best, dropped, choosing, confirming };
}
const repeats = (bed: Bed, seed: string): readonly Repeat[] => {
  const draw = random(seed);
  return alone(REPEATS).map(() => chosen(bed, draw));
};
const covers = ({ low, high }: { readonly low: number; readonly high: number }, truth: number): boolean =>
  low <= truth && truth <= high;

describe('a choice, repeated 200 times', () => {
  const bed = bedOf([0.12, 0.15, 0.18, 0.2, 0.25, 0.3, 0.5, 0.7], 400, random('bed')),
    truth = bed.map(mean),
    best = truth.indexOf(Math.min(...truth)),
    all = repeats(bed, 'repeats'),
    onFresh = ({ chosen: c, confirming }: Repeat): readonly number[] => confirming.map((d) => bed[c][d]);
  const coverage = (interval: (one: Repeat) => { readonly low: number; readonly high: number }): number =>
    all.filter((one) => covers(interval(one), truth[one.chosen])).length / REPEATS;

  it('covers the loss of the choice on fresh documents in at least 95 %', () => {
    expect(coverage((one) => lossInterval(onFresh(one), alone(CONFIRMING), { kind: 'same' }))).toBeGreaterThanOrEqual(
      LEVEL,
    );
    // the same documents in pairs: fractions, so bets instead of Clopper and Pearson
    expect(
      coverage((one) =>
        lossInterval(
          onFresh(one),
          alone(CONFIRMING).map((i) => i >> 1),
          { kind: 'same' },
        ),
      ),
    ).toBeGreaterThanOrEqual(LEVEL);
  });
  it('would not: on the documents that chose, or by the bootstrap', () => {
    const chose = coverage(({ chosen: c, choosing }) =>
      wilson(choosing.filter((d) => bed[c][d] === 1).length, CHOOSING),
    );
    expect(chose).toBeLessThan(LEVEL);
    const none = coverage((one) => ({ low: 0, high: onFresh(one).includes(1) ? 1 : 0 }));
    expect(none).toBeLessThan(LEVEL); // what the bootstrap says of no loss at all
  });
  it('drops the best in at most 5 %, and drops bad ones', () => {
    expect(all.filter(({ dropped }) => dropped.has(best)).length / REPEATS).toBeLessThanOrEqual(1 - LEVEL);
    expect(all.filter(({ dropped }) => dropped.has(7)).length / REPEATS).toBeGreaterThan(0.5);
  });
  it('would drop the best more often with a test that does not count its looks', () => {
    // paired z at 5 % against the leader, after every document from the sixth on
    const draw = random('looks'),
      gone = alone(REPEATS).filter(() => {
        const documents = alone(CHOOSING).map(() => draw.below(bed[0].length));
        return alone(CHOOSING).some((last) => {
          const seen = documents.slice(0, last + 1);
          return bed.some((row, c) => {
            const d = seen.map((at) => bed[best][at] - row[at]),
              spread = Math.sqrt(mean(d.map((x) => (x - mean(d)) ** 2)) / d.length);
            return c !== best && last >= 5 && spread > 0 && mean(d) / spread > 1.645;
          });
        });
      });
    expect(gone.length / REPEATS).toBeGreaterThan(1 - LEVEL);
  });
  it('would drop one that is as good as the best more often if the survivors alone were given', () => {
    const draw = random('survivors'),
      documents = alone(40),
      gone = alone(REPEATS).filter(() => {
        const losses = alone(100).map(() => documents.map(() => draw.below(2))),
          [first, ...others] = losses,
          survivor = others.reduce((a, b) => (mean(b) < mean(a) ? b : a));
        return race([first, survivor], documents, { kind: 'same' }).dropped.includes(0);
      });
    expect(gone.length / REPEATS).toBeGreaterThan(1 - LEVEL);
  });
  it('says no difference on a bed of pure noise', () => {
    const draw = random('noise'),
      noise = alone(8).map(() => alone(400).map(() => Number(draw.next() < 0.4))),
      told = repeats(noise, 'noise').filter(({ chosen: c, confirming }) => {
        const rows = noise.map((row) => confirming.map((d) => row[d]));
        return tiesWith(rows, alone(CONFIRMING), c, { kind: 'same' }).length < noise.length - 1;
      });
    expect(told.length / REPEATS).toBeLessThanOrEqual(1 - LEVEL);
  });
  it('and tells a choice from what always fails', () => {
    const rows = [alone(20).map(() => 0), alone(20).map(() => 1), alone(20).map((i) => Number(i === 3))];
    expect(tiesWith(rows, alone(20), 0, { kind: 'same' })).toEqual([2]);
    expect(tiesWith(rows, alone(20), 1, { kind: 'same' })).toEqual([]);
  });
});

describe('words', () => {
  it('say how much was lost and on how much', () => {
    const interval = lossInterval(
      alone(20).map((i) => Number(i === 0)),
      alone(20),
      { kind: 'same' },
    );
    expect(lossText(interval, { kind: 'same' })).toBe(
      '5.0 % of answers changed (95 % interval 0.1 to 24.9 %; 20 documents, a screening)',
    );
    const many = lossInterval(
      alone(400).map(() => 0),
      alone(400).map((i) => i >> 1),
      { kind: 'answers' },
    );
    expect(lossText(many, { kind: 'answers' })).toMatch(
      /^0\.0 points of the grade lost \(95 % interval \d\.\d better to \d\.\d worse; 400 prompts of 200 documents, a verdict\)$/,
    );
  });
  it('call a loss below 0 better than the full cache', () => {
    const gain = { mean: -0.25, low: -0.6, high: 0.1, n: 8, clusters: 8 };
    expect(lossText(gain, { kind: 'answers' })).toBe(
      '25.0 points better than the full cache (95 % interval 60.0 better to 10.0 worse; 8 documents, a screening)',
    );
    expect(lossText({ ...gain, high: -0.1 }, { kind: 'answers' })).toContain('interval 10.0 to 60.0;');
    expect(lossText({ ...gain, mean: -1e-9, low: -1e-9 }, { kind: 'answers' })).not.toContain('-');
  });
  it('call no documents a verdict that chose', () => {
    const many = lossInterval(new Array<number>(300).fill(0), alone(300), { kind: 'same' });
    expect(lossText(many, { kind: 'same' })).toContain('300 documents, a verdict)');
    expect(lossText(many, { kind: 'same', chose: true })).toContain('300 documents, a screening)');
  });
  it('say what so few documents cannot show', () => {
    expect(smallestShown(20, { kind: 'same' })).toBeCloseTo(0.1684, 4);
    const needed = documentsNeeded(0.01, { kind: 'same' });
    expect(needed).toBe(Math.ceil(Math.log(0.025) / Math.log(0.99)));
    expect(powerNote(20, 0.01, { kind: 'same' })).toBe(
      '20 documents cannot show a loss below 1.0 %: even if none lost anything, they would only show that it is below 16.8 %. It takes at least 368 to confirm on, so some 736 in all, as half of them choose.',
    );
    expect(powerNote(1, 0, { kind: 'same' })).toContain('1 document cannot show');
    expect(powerNote(needed, 0.01, { kind: 'same' })).toBeUndefined();
    expect(powerNote(20, 0, { kind: 'answers' })).toContain('No number of documents shows that.');
    expect(documentsNeeded(1e-9, { kind: 'same' })).toBeGreaterThan(1e9);
    for (const kind of ['same', 'answers'] as const) {
      const none = lossInterval(new Array<number>(20).fill(0), alone(20), { kind });
      expect(smallestShown(20, { kind })).toBeCloseTo(none.high, 9);
      const n = documentsNeeded(0.1, { kind });
      expect(smallestShown(n, { kind })).toBeLessThanOrEqual(0.1);
      expect(smallestShown(n - 1, { kind })).toBeGreaterThan(0.1);
    }
  });
});

describe('bisect', () => {
  it('gives every rung of a monotone ladder, and runs fewer', async () => {
    await fc.assert(
      fc.asyncProperty(fc.integer({ min: 1, max: 40 }), fc.integer({ min: 0, max: 41 }), async (rungs, from) => {
        const ran: number[] = [],
          loss = (rung: number): number => Number(rung < from);
        const [none, results] = await bisect(
          [1, rungs],
          async (asked) =>
            asked.map(([ladder, rung]) => {
              if (ladder === 1) ran.push(rung);
              return { rung, loss: ladder === 0 ? 0 : loss(rung) };
            }),
          (result) => result.loss,
        );
        expect(none).toEqual([{ rung: 0, loss: 0 }]);
        expect(results.map((result) => result.loss)).toEqual(alone(rungs).map(loss));
        expect(new Set(ran).size).toBe(ran.length);
        expect(ran.length).toBeLessThanOrEqual(2 + Math.ceil(Math.log2(rungs)));
        expect(results.every(({ rung }, at) => rung >= at)).toBe(true);
      }),
    );
  });
});
