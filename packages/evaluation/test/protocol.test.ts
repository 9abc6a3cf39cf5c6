import { readFileSync, readdirSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { writeTinyModel } from '@kv/model-testing';
import { loadModel } from '@kv/models';
import type { Model } from '@kv/models';
import { graderNames } from '@kv/tasks';
import fc from 'fast-check';
import { beforeAll, describe, expect, it } from 'vitest';
import {
  branch,
  branchMeanings,
  cellExperiment,
  confirm,
  decide,
  here,
  openLedger,
  probe,
  readIds,
  readProblems,
  runExperiment,
  splitIds,
  TASK,
  tiedLambdas,
  tuningIds,
} from '../src/index.ts';
import type { ModelRunner, CellResult, ConfirmationLog } from '../src/index.ts';
import { rebudget } from '../src/cells/rebudget.ts';
import { chosenLambda, confirmCells } from '../src/protocol/statistics.ts';
import type { ConfirmCell } from '../src/protocol/statistics.ts';
import { folder } from './folder.ts';
import { common, planWriter, problems } from './protocol-plan.ts';

/** The ids of MATH-500, by subject. */
const subjects = JSON.parse(readFileSync(new URL('./data/math-500.json', import.meta.url), 'utf8')) as Record<
    string,
    number[]
  >,
  math = Object.entries(subjects).flatMap(([subject, all]) => all.map((n) => `test/${subject}/${n}.json`));

const file = (text: string, name = 'file.json'): string => {
  const path = join(folder(), name);
  writeFileSync(path, text);
  return path;
};

describe('the split', () => {
  it("is the paper's: 201 and 299 of MATH-500", () => {
    const { dev, confirm: held } = splitIds(math);
    expect([math.length, dev.length, held.length]).toEqual([500, 201, 299]);
    // md5('a') = …772661, whose last digit mod 5 alone would not tell: 0x0cc175b9c0f1b6a831c399e269772661 mod 5 = 3
    expect(splitIds(['a', 'b', 'c'])).toEqual({
      dev: ['a', 'b', 'c'].filter((id) =>
        [0n, 1n].includes(
          BigInt(
            `0x${{ a: '0cc175b9c0f1b6a831c399e269772661', b: '92eb5ffee6ae2fec3ad71c777531578f', c: '4a8a08f09d37b73795649038408b5f33' }[id]}`,
          ) % 5n,
        ),
      ),
      confirm: ['a', 'b', 'c'].filter((id) =>
        [2n, 3n, 4n].includes(
          BigInt(
            `0x${{ a: '0cc175b9c0f1b6a831c399e269772661', b: '92eb5ffee6ae2fec3ad71c777531578f', c: '4a8a08f09d37b73795649038408b5f33' }[id]}`,
          ) % 5n,
        ),
      ),
    });
  });
  it('parts any ids, in their order, each alike wherever it stands', () =>
    fc.assert(
      fc.property(fc.uniqueArray(fc.string()), (ids) => {
        const { dev, confirm: held } = splitIds(ids);
        expect([...dev, ...held].sort()).toEqual([...ids].sort());
        expect(splitIds([...ids].reverse()).dev).toEqual([...dev].reverse());
      }),
    ));
  it('keeps the questions about one document on one side', () =>
    fc.assert(
      fc.property(fc.array(fc.nat(20), { minLength: 1 }), (of) => {
        const all = of.map((document, i) => ({ id: `p${i}`, document: `d${document}` })),
          { dev, confirm: held } = splitIds(all),
          documents = (ids: readonly string[]) => new Set(ids.map((id) => all[Number(id.slice(1))].document));
        expect([...dev, ...held].sort()).toEqual(all.map(({ id }) => id).sort());
        expect([...documents(dev)].filter((one) => documents(held).has(one))).toEqual([]);
        expect([...documents(dev)]).toEqual(splitIds([...new Set(all.map(({ document }) => document))]).dev);
      }),
    ));
  it('gives a verdict by documents, not by questions', () => {
    const cells = [{ role: 'primary', matched: true, difference: 0.1, p: 0.01, bonferroni: 0.01, problems: 5 }],
      ledger = { confirmed: () => ({ ids: 400, cells, chosen: { ids: 9, of: 9, probes: 1 } }), looks: () => [] };
    const found = branch({ hash: 'x' } as never, ledger as never);
    expect(found).toMatchObject({ ids: 400, evidence: 'screening' });
  });
  it('reads ids of hostile files in one sentence', () => {
    for (const [text, said] of [
      ['', 'ids: expected JSON, got text that ends too early'],
      ['{"a": 1}', 'ids: expected an array, got {"a":1}'],
      ['["a", 7]', 'ids: 1 must be a string, got 7'],
      ['["a", ""]', 'ids: 1 must not have fewer than 1 characters, got ""'],
      ['["a", "b", "a"]', 'ids: expected each id once, got "a" twice'],
      ['['.repeat(100), 'ids: expected at most 64 levels of lists and objects, got more'],
    ] as const)
      expect(() => readIds(file(text), 'ids')).toThrow(said);
    expect(() => readIds('/nowhere/ids', 'ids')).toThrow('ids: expected a file that can be read, got ENOENT');
  });
});

describe('the rules', () => {
  it('choose a weight as the paper did: the largest mean gain, ties within half a point to the smaller', () => {
    const of = (...gains: number[]): number =>
      chosenLambda([0.5, 1, 1.5].map((lambda, i) => ({ lambda, gain: gains[i] / 100 })));
    expect(of(0.75, -0.5, 0.43)).toBe(0.5);
    expect(of(0.3, 0.1, 0.8)).toBe(0.5);
    expect(of(0.29, 0.1, 0.8)).toBe(1.5);
    expect(of(-3, -1, -1.2)).toBe(1);
    expect(tiedLambdas([0.5, 1, 1.5].map((lambda) => ({ lambda, gain: 0 })))).toEqual([0.5, 1, 1.5]);
    expect(tiedLambdas([0.5, 1].map((lambda) => ({ lambda, gain: lambda })))).toEqual([1]);
  });
  const cell = (role: 'primary' | 'second', points: number, p: number) => ({
    role,
    matched: true,
    difference: points / 100,
    p,
    bonferroni: Math.min(1, 4 * p),
  });
  const table2 = [
    cell('primary', 1.56, 0.2),
    cell('primary', 4.79, 0.0022),
    cell('second', 2.23, 0.0054),
    cell('second', -0.22, 0.86),
  ];
  it("reads branch A from the paper's table 2, with two cells past Bonferroni", () =>
    expect(decide(table2)).toEqual({
      branch: 'A',
      primaryGains: true,
      secondMeanPositive: true,
      noSecondLoss: true,
      noLoss: true,
      passed: 2,
    }));
  it('come to B where second models do not follow, and C without a primary gain', () => {
    expect(decide([...table2.slice(0, 3), cell('second', -0.5, 0.04)]).branch).toBe('B');
    expect(decide([...table2.slice(0, 2), cell('second', -0.5, 0.4)]).branch).toBe('B');
    expect(decide(table2.slice(0, 2)).branch).toBe('B');
    expect(decide([table2[0], ...table2.slice(2)]).branch).toBe('C');
    expect(decide([cell('primary', -4, 0.001), table2[1], ...table2.slice(2)])).toMatchObject({
      branch: 'A',
      noLoss: false,
    });
  });
});

describe('equal mean cache', () => {
  it('is met by a budget within 1 %, or the nearest is told', async () => {
    let measured = 0;
    const mean = async (budget: number): Promise<number> => {
      measured++;
      return 0.7 * budget + 30;
    };
    expect(await rebudget(100, 128, 0.01, mean)).toEqual({ budget: 101, mean: 0.7 * 101 + 30, matched: true });
    expect(measured).toBeLessThan(9);
    expect(await rebudget(100, 100, 0.01, async () => 150)).toMatchObject({ mean: 150, matched: false });
    expect(await rebudget(100, 10, 0.01, async (budget) => (budget < 20 ? 50 : 120))).toMatchObject({
      mean: 120,
      matched: false,
    });
  });
});

const result = (problem: string, seed: number, score: number): CellResult => ({
  id: '',
  task: TASK,
  problem,
  policy: 'x',
  seed,
  answer: '',
  score,
  parsed: score > 0,
  tokens: 1,
  slots: { mean: 100, peak: 120 },
  bytes: { mean: 1, peak: 2 },
  evidence: {},
});
/** How many of all signs that the clusters' sums could have had are as far from 0 as theirs. */
function bySigns(clusters: readonly (readonly number[])[]): number {
  const sums = clusters.map((cluster) => cluster.reduce((a, b) => a + b, 0)),
    far = (signs: number): number => Math.abs(sums.reduce((total, x, i) => total + (signs & (1 << i) ? -x : x), 0)),
    all = Array.from({ length: 2 ** sums.length }, (_, signs) => far(signs));
  return all.filter((one) => one >= far(0) - 1e-12).length / all.length;
}
describe('samples of a cell', () => {
  it('are paired by seed and clustered by problem, as the exact vectors are', () => {
    const { exact_cluster_bootstrap: vectors } = JSON.parse(
      readFileSync(new URL('../../tasks/test/data/stats-vectors.json', import.meta.url), 'utf8'),
    ) as {
      exact_cluster_bootstrap: {
        clusters: number[][];
        delta: number;
        p_two_sided_percentile: number;
        ci95_percentile_linear: [number, number];
      }[];
    };
    for (const {
      clusters,
      delta,
      p_two_sided_percentile: p,
      ci95_percentile_linear: [low, high],
    } of vectors) {
      const all = clusters.flatMap((cluster, i) =>
        cluster.map((difference, seed) => ({ problem: String(i), seed, difference })),
      );
      const [cell] = confirmCells(
        [
          {
            model: 'm',
            role: 'primary',
            budget: 64,
            candidateBudget: 65,
            base: all.map(({ problem, seed }) => result(problem, seed, 0)).reverse(),
            candidate: all.map(({ problem, seed, difference }) => result(problem, seed, difference)),
          },
        ],
        0.01,
      );
      expect(cell).toMatchObject({ problems: clusters.length, matched: true });
      expect(cell.difference).toBeCloseTo(delta, 12);
      expect(Math.abs(cell.p - Math.max(p, bySigns(clusters)))).toBeLessThan(0.015);
      // problems that all say the same leave open what was not seen
      const open = high > low ? 0 : 1 - 0.025 ** (1 / clusters.length);
      expect(Math.abs(cell.low - (low - open * (1 + low)))).toBeLessThan(0.03);
      expect(Math.abs(cell.high - (high + open * (1 - high)))).toBeLessThan(0.03);
    }
  });
});

it('no one problem decides a cell, a branch neither', () => {
  const cellOf = (n: number): readonly ConfirmCell[] => {
    const some = (score: number): CellResult[] =>
      Array.from({ length: n }, (_, i) => [0, 1, 2].map((seed) => result(String(i), seed, score))).flat();
    return confirmCells(
      [{ model: 'm', role: 'primary', budget: 64, candidateBudget: 64, base: some(0), candidate: some(1) }],
      0.01,
    );
  };
  expect([1, 5, 6, 8].map((n) => cellOf(n)[0].p)).toEqual([1, 2 ** -4, 2 ** -5, 2 ** -7]);
  expect([1, 5, 6].map((n) => decide(cellOf(n)).branch)).toEqual(['C', 'C', 'B']);
  expect(cellOf(40)[0]).toMatchObject({ difference: 1, p: 2 / 10_001, bonferroni: 2 / 10_001 });
});

describe('the ledger', () => {
  const ids = { confirm: ['a', 'b'], texts: new Map(['a', 'b'].map((id) => [id, `what ${id} says`])) },
    lines = (path: string): readonly string[] => readFileSync(path, 'utf8').trimEnd().split('\n'),
    rewritten = (path: string, some: readonly string[]): void =>
      writeFileSync(path, some.map((line) => `${line}\n`).join(''));
  const add = (ledger: ConfirmationLog, kind: 'begun' | 'again', config: string): Promise<void> =>
    ledger.write((entry) => entry({ kind, config }));
  /** A ledger with looks of configurations c0, c1, … */
  const looked = async (n: number, kept = folder()): Promise<{ readonly kept: string; readonly path: string }> => {
    for (let i = 0; i < n; i++) await add(openLedger(kept, ids), 'begun', `c${i}`);
    return { kept, path: openLedger(kept, ids).path };
  };
  it('tells every line that was changed, removed, moved or put between others, with its number', async () => {
    const { kept, path } = await looked(4),
      whole = lines(path),
      said = (number: number, what: string): RegExp =>
        new RegExp(`protocol-[0-9a-f]{12}\\.jsonl, line ${number}: expected ${what}`);
    expect(openLedger(kept, ids).looks()).toHaveLength(4);
    for (let i = 1; i < whole.length; i++) {
      rewritten(path, whole.with(i, whole[i].replace('"c', '"d')));
      expect(() => openLedger(kept, ids)).toThrow(said(i + 1, 'what was written, got a line with a wrong checksum'));
      if (i === whole.length - 1) continue;
      for (const changed of [
        whole.toSpliced(i, 1),
        whole.with(i, whole[i + 1]).with(i + 1, whole[i]),
        whole.toSpliced(i, 0, whole[i + 1]),
      ]) {
        rewritten(path, changed);
        expect(() => openLedger(kept, ids)).toThrow(said(i + 1, 'the line that followed those before it, got another'));
      }
    }
    rewritten(path, [...whole, whole[1]]);
    expect(() => openLedger(kept, ids)).toThrow(said(6, 'the line that followed'));
  });
  it('goes on after a last line that a kill cut off', async () => {
    const { kept, path } = await looked(3),
      bytes = readFileSync(path),
      [head, one, two] = lines(path).map((line) => Buffer.byteLength(line) + 1);
    for (let end = head + one + two; end < bytes.length; end++) {
      writeFileSync(path, bytes.subarray(0, end));
      expect(openLedger(kept, ids).looks()).toHaveLength(2);
    }
    await add(openLedger(kept, ids), 'begun', 'c2');
    expect(readFileSync(path)).toEqual(bytes);
  });
  it('is read before each line that is added: two that are open at once lose nothing', async () => {
    const kept = folder(),
      [one, two] = [openLedger(kept, ids), openLedger(kept, ids)];
    await add(one, 'begun', 'c');
    await add(two, 'again', 'c');
    expect([one.looks().length, two.looks().length, one.begun('c'), two.begun('c')]).toEqual([2, 2, true, true]);
  });
  it('counts looks at the same texts in every ledger of the folder, and reads those strictly too', async () => {
    const { kept, path } = await looked(2),
      renamed = {
        confirm: ['z', 'y'],
        texts: new Map([...ids.texts].map(([id, text]) => [id === 'a' ? 'z' : 'y', text])),
      },
      fewer = { ...ids, confirm: ['b'] },
      others = { confirm: ['a'], texts: new Map([['a', 'something else']]) };
    expect([renamed, fewer, others].map((one) => openLedger(kept, one).looks().length)).toEqual([2, 2, 0]);
    expect(openLedger(kept, others).looks(['what b says'])).toHaveLength(2);
    await add(openLedger(kept, fewer), 'again', 'c0');
    expect([ids, renamed, fewer, others].map((one) => openLedger(kept, one).looks().length)).toEqual([3, 3, 3, 0]);
    // the same ids are looked at again when their problems say something else
    expect(
      openLedger(kept, {
        ...ids,
        texts: new Map([
          ['a', '1'],
          ['b', '2'],
        ]),
      }).looks(),
    ).toHaveLength(2);
    rewritten(path, lines(path).toSpliced(1, 1));
    expect(() => openLedger(kept, renamed).looks()).toThrow(
      ', line 2: expected the line that followed those before it',
    );
  });
});

describe('problems of files', () => {
  it('are read as benchmarks publish them', () => {
    const rows = (row: object, name: string): ReturnType<typeof readProblems> =>
      readProblems(file(`${JSON.stringify(row)}\n${JSON.stringify(row)}\n`), name);
    const gsm8k = rows({ question: 'Half of 36?', answer: '36 / 2 = <<36/2=18>>18\n#### 18' }, 'f');
    expect(gsm8k).toHaveLength(2);
    expect(gsm8k[0]).toMatchObject({ id: 'gsm8k/0', answers: ['#### 18'], grader: 'number' });
    const prompt = `${['a-b', 'c-d'].map((key, i) => `line ${key}: REGISTER_CONTENT is <${i}>\n`).join('')}Now the record is over. Tell me what is the <REGISTER_CONTENT> in line c-d? I need the number.`,
      lines = rows({ random_idx: ['c-d', 1], expected_number: 1, num_lines: 2, correct_line: '', prompt }, 'f');
    expect(lines[1]).toMatchObject({ id: 'longeval/1', answers: ['1'] });
    expect(lines[1].context).toContain('line c-d: REGISTER_CONTENT is <1>');
    expect(lines[1].question).toMatch(/in line c-d\? I need/);
    const [math500] = readProblems(
      file('[{"problem": "1+1", "answer": "2", "unique_id": "test/x/1.json", "level": 1}]'),
      'f',
    );
    expect(math500).toMatchObject({ id: 'test/x/1.json', grader: 'boxed', answers: ['2'] });
  });
  it('are of one document where they ask about one text', () => {
    const read = (...rows: object[]) => readProblems(file(JSON.stringify(rows)), 'f'),
      turns = [{ input_text: 'Who?' }, { input_text: 'Where?' }],
      story = (id: string) => ({ id, story: 'A boy sat there.', questions: turns, answers: turns }),
      squad = (id: string, context: string) => ({ id, context, question: 'Who?', answers: { text: ['A boy'] } });
    expect(read(story('s'), story('t')).map(({ document }) => document)).toEqual(['s', 's', 't', 't']);
    const [one, two, three] = read(squad('a', 'A boy.'), squad('b', 'A boy.'), squad('c', 'A girl.'));
    expect(one.document).toMatch(/^[0-9a-f]{32}$/);
    expect([two.document === one.document, three.document === one.document]).toEqual([true, false]);
    expect(read({ id: 1, question: 'q', answer: 'b' })[0]).toMatchObject({ grader: 'words' });
  });
  it('are refused in one sentence', () => {
    for (const [text, said] of [
      ['', 'f: expected problems, got an empty file'],
      ['[]', 'f: expected at least one problem, got none'],
      ['{"id": "a"}\n{"id": 3.5, "answer": "x"}', 'f, line 1: expected answer or answers, got neither'],
      ['{"id": "a", "answer": "b"}', 'f, line 1: expected a context or a question, got neither'],
      [
        '{"id": "a", "question": "q", "answer": "b"}\n\n{"id": "a", "question": "q", "answer": "b"}',
        'f: expected each id once, got "a" twice',
      ],
      ['{"id": "a", "question": "q", "answer": "b", "maxNewTokens": 0}', 'f, line 1: maxNewTokens must be >= 1, got 0'],
      ['{"id": "a", "question": "q", "answer": 7}', 'f, line 1: answer must be a string, got 7'],
      [
        '{"id": "a", "question": "q", "answer": "b", "grader": "exakt"}',
        `f, line 1: grader must be one of ${graderNames.join(', ')} (did you mean exact?), got "exakt"`,
      ],
      ['[null]', 'f, row 1: expected an object, got null'],
      ['{"id": "a"', 'f, line 1: expected JSON, got'],
    ] as const)
      expect(() => readProblems(file(text), 'f'), text).toThrow(said);
  });
});

describe('a plan', () => {
  let models: Readonly<Record<string, Model>>;
  beforeAll(async () => {
    const tiny = (layers: number): Promise<Model> => loadModel(writeTinyModel(join(folder(), 'tiny'), { layers }));
    models = { one: await tiny(2), two: await tiny(3) };
  });
  const plan = {
      ...common,
      base: 'snapkv(window=8)',
      candidate: 'snapkv(window=8) ∘ diversity(lambda={lambda},scale=deviations)',
      lambdas: [0.5, 1],
      seeds: [0, 1],
      temperature: 0.8,
      every: 4,
    },
    written = planWriter(plan);
  /** The tiny models, with what was asked of them. */
  function bed(kept: string, asked: string[] = [], { problems: all } = written()): ModelRunner {
    return {
      identity: async (name) => ({ weights: models[name].fingerprint, engine: models[name].engine }),
      run: async (name, cells) => {
        const model = models[name],
          experiment = await cellExperiment(model, {
            name: 'cells',
            tasks: { [TASK]: all },
            generation: { temperature: 0.8, every: 4 },
            policies: [],
            cells,
          });
        asked.push(...experiment.left([]).map(({ problem }) => problem));
        return (await runExperiment(experiment, { start: here({ model }), folder: kept }))!; // nothing aborts it
      },
    };
  }

  it('is probed on ids to choose on, confirmed once on the others, and a second look is counted', async () => {
    const kept = folder(),
      protocol = written(),
      ledger = openLedger(kept, protocol),
      tuned: string[] = [],
      held: string[] = [];
    await expect(confirm(protocol, bed(kept), ledger)).rejects.toThrow('confirm: expected a probe of this plan');
    expect(() => branch(protocol, ledger)).toThrow('branch: expected a confirmation of this plan');
    const probed = await probe(protocol, protocol.dev, bed(kept, tuned), ledger);
    expect(new Set(tuned)).toEqual(new Set(protocol.dev));
    expect(plan.lambdas).toContain(probed.lambda);
    expect(probed.cells.map(({ atZero }) => atZero)).toEqual(probed.cells.map(() => ({ differ: 0, of: 3 })));
    const unlike = written({ candidate: 'streaming ∘ diversity(lambda={lambda},scale=deviations)' }),
      none = written({ candidate: 'snapkv(window=8) ∘ diversity(lambda=1{lambda},scale=deviations)', base: 'tova' });
    for (const other of [unlike, none])
      for (const { atZero } of (await probe(other, other.dev, bed(folder()), openLedger(folder(), other))).cells)
        expect(atZero!.differ).toBeGreaterThan(0);
    const wrong = written({ candidate: 'snapkv(window={lambda})', lambdas: [4, 0.5] }),
      ran: string[] = [];
    await expect(probe(wrong, wrong.dev, bed(folder(), ran), openLedger(folder(), wrong))).rejects.toThrow(
      'window must be',
    );
    expect(ran).toEqual([]);
    const positive = written({ candidate: 'snapkv(window={lambda})', lambdas: [4] });
    for (const { atZero } of (await probe(positive, positive.dev, bed(folder()), openLedger(folder(), positive))).cells)
      expect(atZero).toBeUndefined(); // no window has 0 queries
    for (const { base, arms } of probed.cells)
      for (const { matched, meanSlots } of arms) expect(Math.abs(meanSlots / base.meanSlots - 1) <= 0.01).toBe(matched);
    const confirmed = await confirm(protocol, bed(kept, held), ledger);
    expect(new Set(held)).toEqual(new Set(protocol.confirm));
    expect(confirmed).toMatchObject({ verdict: 'look 1 at these ids', seen: 0 });
    const first = branch(protocol, ledger);
    expect(first.verdict).toBe(`branch ${first.branch}: ${branchMeanings[first.branch!]}`); // equal budgets are matched
    expect(confirmed).toMatchObject({ look: 1, lambda: probed.lambda, ids: protocol.confirm.length, seeds: [0, 1] });
    expect(confirmed.cells.map(({ problems: n }) => n)).toEqual([protocol.confirm.length, protocol.confirm.length]);

    const again: string[] = [],
      reopened = openLedger(kept, protocol);
    expect(await confirm(protocol, bed(kept, again), reopened)).toEqual({
      ...confirmed,
      verdict: `not a confirmation: look 2 at these ids; ${confirmed.ids} of these ${confirmed.ids} problems were looked at before`,
      look: 2,
      seen: confirmed.ids,
    });
    expect(again).toEqual([]);
    expect(branch(protocol, openLedger(kept, protocol))).toMatchObject({
      config: confirmed.config,
      verdict: `not a confirmation: look 2 at these ids; ${first.verdict}`,
      looks: 2,
      cells: 2,
      ids: protocol.confirm.length,
      evidence: 'screening',
    });
    // another plan on the same ids is one more look at them
    const other = written({ lambdas: [1] }),
      shared = openLedger(kept, other);
    await probe(other, other.dev, bed(kept), shared);
    expect((await confirm(other, bed(kept), shared)).look).toBe(3);
    // equal input, equal bytes
    const fresh = folder(),
      empty = openLedger(fresh, protocol);
    expect(JSON.stringify(await probe(protocol, protocol.dev, bed(fresh), empty))).toBe(JSON.stringify(probed));
    expect(JSON.stringify(await confirm(protocol, bed(fresh), empty))).toBe(JSON.stringify(confirmed));
    expect(readdirSync(fresh).filter((name) => name.startsWith('protocol-'))).toHaveLength(1);
  });
  it('is a later look at problems that were confirmed on under another plan or id, which tuning refuses', async () => {
    const kept = folder(),
      one = { models: plan.models.slice(0, 1), lambdas: [1], seeds: [0] },
      looked = async (rows: typeof problems): Promise<Awaited<ReturnType<typeof confirm>>> => {
        const protocol = written(one, rows),
          ledger = openLedger(kept, protocol),
          bench = bed(kept, [], protocol);
        await probe(protocol, protocol.dev.slice(0, 2), bench, ledger);
        return confirm(protocol, bench, ledger);
      },
      { dev, confirm: held } = splitIds(problems.map(({ id }) => id)),
      textOf = (id: string): (typeof problems)[number] => problems.find((problem) => problem.id === id)!;
    expect(await looked(problems)).toMatchObject({ look: 1, seen: 0 });
    const fewer = held.length - 1;
    expect(await looked(problems.filter(({ id }) => id !== held[0]))).toMatchObject({
      verdict: `not a confirmation: look 2 at these ids; ${fewer} of these ${fewer} problems were looked at before; weight chosen on 2 of ${splitIds(problems.map(({ id }) => id)).dev.length} ids to choose on`,
      look: 2,
    });
    // other ids: what was confirmed on stays on its side, but for one
    const names = (side: 'dev' | 'confirm'): readonly string[] =>
        splitIds(Array.from({ length: 60 }, (_, i) => `z/${i}`))[side],
      renamed = [
        ...dev.map((id, i) => ({ ...textOf(id), id: names('dev')[i] })),
        ...held.map((id, i) => ({ ...textOf(id), id: names('confirm')[i] })),
      ];
    expect(await looked(renamed)).toMatchObject({ look: 3, seen: held.length, ids: held.length });
    const tuned = written(one, renamed.with(0, { ...textOf(held[1]), id: names('dev')[0] }).slice(0, -fewer));
    await expect(probe(tuned, tuned.dev, bed(kept, [], tuned), openLedger(kept, tuned))).rejects.toThrow(
      `probe: expected problems to choose on alone, got "${names('dev')[0]}", which says what one that was confirmed on says`,
    );
  }, 60_000);
  it('refuses ids to confirm on, and strange ones, where a weight is chosen', () => {
    const protocol = written();
    expect(tuningIds(protocol.dev, protocol, 'ids')).toEqual(protocol.dev);
    expect(() => tuningIds([protocol.dev[0], protocol.confirm[0]], protocol, 'ids')).toThrow(
      `ids: expected ids to choose on alone, got "${protocol.confirm[0]}", which is one to confirm on`,
    );
    expect(() => tuningIds(['q'], protocol, 'ids')).toThrow(`ids: expected ids of the plan's problems, got "q"`);
  });
  it('is refused in one sentence where it is no plan', () => {
    for (const [change, said] of [
      [{ candidate: 'knorm' }, 'plan.json: candidate must hold {lambda}, got "knorm"'],
      [{ budgets: [] }, 'plan.json: budgets must not have fewer than 1 items, got []'],
      [{ budgets: [1.5] }, 'plan.json: budgets.0 must be an integer, got 1.5'],
      [{ seed: 1 }, 'plan.json: seed is no field that is known (did you mean seeds?), got 1'],
      [{ models: [plan.models[0], plan.models[0]] }, 'plan.json: models must have different names, got one, one'],
      [{ tasks: 'others.json' }, 'others.json: expected a file that can be read, got ENOENT'],
    ] as const)
      expect(() => written(change)).toThrow(said);
    expect(() => written({}, problems.slice(0, 1))).toThrow('problems.json: expected ids on both sides of the split');
    expect(() => written({}, [...problems, { ...problems[3], id: 'copy' }])).toThrow(
      'problems.json: expected each problem once, got one context and question as "p/3" and as "copy"',
    );
  });
});
