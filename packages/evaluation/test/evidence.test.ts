import { join } from 'node:path';
import { writeTinyModel } from '@kv/model-testing';
import { loadModel } from '@kv/models';
import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { branch, cellExperiment, confirm, decide, openLedger, probe } from '../src/index.ts';
import type { ModelRunner, Cell, CellResult, LoadedPlan } from '../src/index.ts';
import { cellId } from '../src/cells/types.ts';
import { byProblem } from '../src/grouped.ts';
import { confirmCells, pairedByProblem } from '../src/protocol/statistics.ts';
import type { CellSample } from '../src/protocol/statistics.ts';
import { folder } from './folder.ts';
import { common, planWriter, problems } from './protocol-plan.ts';

const plan = {
    ...common,
    base: 'knorm',
    candidate: 'streaming(sinks={lambda})',
    lambdas: [1, 2],
    seeds: [0],
  },
  written = planWriter(plan);
const answered = (cell: Cell, score: number, mean: number): CellResult => ({
  ...cell,
  id: '',
  answer: '',
  score,
  parsed: true,
  tokens: 1,
  slots: { mean, peak: mean },
  bytes: { mean: 1, peak: 1 },
  evidence: {},
});
/** A model runner whose candidate is always right and whose base never is, at these mean caches. */
const bed = (
  slots: (cell: Cell) => number = () => 24,
  weights: (name: string) => string = (name) => name,
): ModelRunner => ({
  identity: async (name) => ({ weights: `weights of ${weights(name)}`, engine: 'exact' }),
  run: async (_, cells) => cells.map((cell) => answered(cell, cell.policy === plan.base ? 0 : 1, slots(cell))),
});
/** Probe, confirm and branch in a folder. */
async function steps(
  protocol: LoadedPlan,
  on: ModelRunner,
  { kept = folder(), ids = protocol.dev }: { readonly kept?: string; readonly ids?: readonly string[] } = {},
) {
  const ledger = openLedger(kept, protocol),
    probed = await probe(protocol, ids, on, ledger),
    confirmed = await confirm(protocol, on, ledger);
  return { probed, confirmed, decided: branch(protocol, ledger) };
}

it('problems of one document are one cluster, in tests and intervals', () => {
  const scores = fc.array(fc.tuple(fc.constantFrom(0, 1), fc.constantFrom(0, 1), fc.nat(4)), {
    minLength: 1,
    maxLength: 12,
  });
  fc.assert(
    fc.property(scores, (all) => {
      const cells = (at: 0 | 1): CellResult[] =>
          all.map((one, i) => ({
            ...answered({ task: 't', problem: `p/${i}`, policy: String(at), seed: 0 }, one[at], 24),
            ...(one[2] > 0 && { document: `d/${one[2]}` }),
          })),
        names = cells(0).map(({ document, problem }) => document ?? problem),
        documents = [...new Set(names)];
      const clusters = pairedByProblem(cells(1), cells(0)),
        sums = documents.map((name) => all.reduce((sum, [a, b], i) => sum + (names[i] === name ? b - a : 0), 0));
      expect(clusters.map((some) => some.reduce((a, b) => a + b, 0))).toEqual(sums);
      expect(byProblem(cells(0))).toHaveLength(documents.length);
    }),
  );
});

const CLAIM = /the claim holds/;
describe('matched memory', () => {
  const score = fc.constantFrom(0, 1),
    arm = fc.record({
      scores: fc.array(score, { minLength: 8, maxLength: 8 }),
      slots: fc.integer({ min: 20, max: 30 }),
    }),
    sampled = fc.record({ role: fc.constantFrom('primary' as const, 'second' as const), base: arm, candidate: arm });
  const cellOf = (i: number, seed = 0): Cell => ({ task: 't', problem: String(i), policy: 'p', budget: 24, seed });
  it('is what any claim stands on, whatever came out', () =>
    fc.assert(
      fc.property(fc.array(sampled, { minLength: 1, maxLength: 4 }), (some) => {
        const results = ({ scores, slots }: (typeof some)[number]['base']): CellResult[] =>
            scores.map((one, i) => answered(cellOf(i), one, slots)),
          cells = confirmCells(
            some.map(
              ({ role, base, candidate }, i): CellSample => ({
                model: `m${i}`,
                role,
                budget: 24,
                candidateBudget: 24,
                base: results(base),
                candidate: results(candidate),
              }),
            ),
            0.01,
          ),
          decision = decide(cells),
          matched = some.every(({ base, candidate }) => base.slots === candidate.slots);
        expect(decision.branch !== undefined).toBe(matched);
        // a cell without a discordant pair claims nothing
        if (some.every(({ base, candidate }) => base.scores.join() === candidate.scores.join()))
          expect([decision.primaryGains, decision.noLoss, decision.passed]).toEqual([false, true, 0]);
        if (decision.branch === 'A' || decision.branch === 'B')
          expect(
            some.some(
              ({ role, base, candidate }) => role === 'primary' && base.scores.join() !== candidate.scores.join(),
            ),
          ).toBe(true);
      }),
      { numRuns: 40 },
    ));
  it('that a confirmation has not is what branch says, and no branch', async () => {
    const protocol = written({ lambdas: [1] }),
      { confirmed, decided } = await steps(
        protocol,
        bed(({ policy, problem }) => (policy !== plan.base && protocol.confirm.includes(problem) ? 58 : 24)),
      ),
      said =
        'not matched: one at 24: mean caches of 58.0 and 24.0 slots; two at 24: mean caches of 58.0 and 24.0 slots';
    expect(confirmed.verdict).toBe(`look 1 at these ids; ${said}`);
    expect(decided).toMatchObject({ verdict: said, primaryGains: false, passed: 0 });
    expect(decided).not.toHaveProperty('branch');
    expect((await steps(protocol, bed())).decided.verdict).toMatch(CLAIM);
  });
  it('is asked of weights too: one that has it not is not chosen, and where none has it nothing is confirmed', async () => {
    const protocol = written(),
      half = bed(({ policy }) => (policy === 'streaming(sinks=1)' ? 90 : 24)),
      { probed } = await steps(protocol, half);
    expect(probed.lambda).toBe(2);
    expect(probed.gains.map(({ matched }) => matched)).toEqual([false, true]);
    const none = steps(
      protocol,
      bed(({ policy }) => (policy === plan.base ? 24 : 90)),
    );
    await expect(none).rejects.toThrow('confirm: expected a probe that chose a weight, got one where none has');
  });
  it('is never wider than 5 %', () => {
    for (const within of [1, 0.5, 0.051])
      expect(() => written({ within })).toThrow(`plan.json: within must be <= 0.05, got ${within}`);
    expect(written({ within: 0.05 }).plan.within).toBe(0.05);
  });
});

describe('models', () => {
  it('are their weights: one under two names is refused in every step that asks it', async () => {
    const protocol = written(),
      kept = folder(),
      ledger = openLedger(kept, protocol),
      twice = bed(undefined, () => 'one'),
      said = (step: string): string =>
        `${step}: expected models of different weights, got one (weights of one) as "one" and as "two": name each once`;
    await expect(probe(protocol, protocol.dev, twice, ledger)).rejects.toThrow(said('probe'));
    await probe(protocol, protocol.dev, bed(), ledger);
    await expect(confirm(protocol, twice, ledger)).rejects.toThrow(said('confirm'));
    await expect(
      confirm(
        protocol,
        bed(undefined, (name) => `a changed ${name}`),
        ledger,
      ),
    ).rejects.toThrow(
      'confirm: expected the weights that were probed (weights of one) of "one", got others (weights of a changed one)',
    );
    expect(ledger.looks()).toEqual([]);
  });
  it('stand in the record of every step', async () => {
    const { probed, confirmed, decided } = await steps(written(), bed()),
      models = [
        { name: 'one', weights: 'weights of one', engine: 'exact' },
        { name: 'two', weights: 'weights of two', engine: 'exact' },
      ];
    expect([probed.models, confirmed.models, decided.models]).toEqual([models, models, models]);
  });
});

it('a weight that was chosen on some of the ids, or after other probes, is told so by every later step', async () => {
  const protocol = written(),
    kept = folder(),
    { dev } = protocol,
    { probed, confirmed, decided } = await steps(protocol, bed(), { kept, ids: dev.slice(0, 1) }),
    chosen = `weight chosen on 1 of ${dev.length} ids to choose on`;
  expect(probed).toMatchObject({ ids: 1, of: dev.length, probes: 1 });
  expect(confirmed.verdict).toBe(`look 1 at these ids; ${chosen}`);
  expect(decided.verdict).toMatch(new RegExp(`^${chosen}; branch A: `));
  // what was confirmed stays chosen so, and a probe of all ids before it is counted
  expect((await steps(protocol, bed(), { kept })).confirmed.chosen).toEqual({ ids: 1, of: dev.length, probes: 1 });
  const fresh = folder();
  await probe(written({ lambdas: [2] }), dev, bed(), openLedger(fresh, protocol));
  const again = await steps(protocol, bed(), { kept: fresh });
  expect(again.confirmed.chosen).toEqual({ ids: dev.length, of: dev.length, probes: 2 });
  expect(again.decided.verdict).toMatch(/^weight chosen by probe 2 of these problems; branch A: /);
});

it('answers that were kept are graded again as they are read', async () => {
  const model = await loadModel(writeTinyModel(join(folder(), 'tiny'))),
    asked = { answers: ['\\frac12'], grader: 'boxed' as const, maxNewTokens: 2 },
    cell: Cell = { task: 't', problem: 'p', policy: 'knorm', budget: 24, seed: 0 },
    experiment = await cellExperiment(model, {
      name: 'cells',
      tasks: { t: [{ id: 'p', context: 'What is half of one?', question: '', ...asked }] },
      generation: {},
      policies: [],
      cells: [cell],
    }),
    older = { ...answered(cell, 0, 24), id: cellId(cell), parsed: false, answer: '\\boxed{0.5}' };
  expect(experiment.conclude([older])).toEqual([{ ...older, score: 1, parsed: true }]);
});

describe('problems', () => {
  /** Inserts white space or an invisible character where it is insignificant: anywhere but between digits. */
  const padded = (text: string, at: number, space: string): string => {
    const place = at % (text.length + 1);
    return /\d$/.test(text.slice(0, place)) && /^\d/.test(text.slice(place))
      ? `${text}${space}`
      : `${text.slice(0, place)}${space}${text.slice(place)}`;
  };
  it('are known however they are spaced, ordered or named, and looked at again where only some of them are', () =>
    fc.assert(
      fc.asyncProperty(
        fc.array(fc.tuple(fc.nat(200), fc.constantFrom(' ', '\n\n', '\u00a0', '\u200b ', '\t')), {
          minLength: problems.length,
          maxLength: problems.length,
        }),
        fc.shuffledSubarray(problems, { minLength: 9 }),
        fc.boolean(),
        async (spaces, some, more) => {
          const kept = folder();
          await steps(written(), bed(), { kept });
          const rows = some.map(({ context, question, ...problem }, i) => ({
              ...problem,
              context: padded(context, spaces[i][0], spaces[i][1]),
              question: padded(question, spaces[i][0], spaces[i][1]),
            })),
            others = more ? [{ id: 'n/1', context: 'Another', question: '?', answer: 'x' }] : [],
            protocol = written({}, [...rows, ...others]),
            seen = protocol.confirm.filter((id) => id !== 'n/1').length,
            { confirmed } = await steps(protocol, bed(), { kept });
          expect(confirmed).toMatchObject(seen > 0 ? { look: 2, seen } : { look: 1, seen: 0 });
        },
      ),
      { numRuns: 25 },
    ));
  it('with other digits are others', () => {
    const said = (context: string): string | undefined =>
      written({}, [...problems, { id: 'n', context, question: '', answer: '' }]).texts.get('n');
    expect(new Set(['Add 1 2', 'Add 12', 'Add 1  2', 'Add 1 3'].map(said)).size).toBe(3);
  });
});
