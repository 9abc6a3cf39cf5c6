import { readdirSync, readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { writeTinyModel } from '@kv/model-testing';
import { loadModel } from '@kv/models';
import type { Model } from '@kv/models';
import { parquetReadObjects } from 'hyparquet';
import { beforeAll, describe, expect, it } from 'vitest';
import {
  answersParquet,
  cellExperiment,
  checkPolicies,
  generationOf,
  here,
  readSweep,
  runExperiment,
  sweepCost,
  sweepCsv,
  sweepJson,
  sweepModel,
  sweepParquet,
  sweepReport,
  sweepTasks,
} from '../src/index.ts';
import type { SweepOutcome, SweepRow } from '../src/index.ts';
import { isDev } from '../src/protocol/split.ts';
import { folder } from './folder.ts';

let model: Model;
beforeAll(async () => {
  model = await loadModel(writeTinyModel(join(folder(), 'tiny')));
});
const problems = Array.from({ length: 4 }, (_, i) => ({
  id: `p/${i}`,
  context: `${'Some words stand here. '.repeat(6)}The number is ${i}.`,
  question: ' The number is',
  answer: String(i),
  maxNewTokens: 5,
}));
const sweep = {
  models: ['tiny'],
  policies: ['full', 'streaming', 'snapkv(window=8)'],
  tasks: ['problems.jsonl'],
  budgets: [24, 48],
  every: 2,
};
const written = (change: object = {}): string => {
  const into = folder();
  writeFileSync(join(into, 'problems.jsonl'), problems.map((row) => JSON.stringify(row)).join('\n'));
  writeFileSync(join(into, 'sweep.json'), JSON.stringify({ ...sweep, ...change }));
  return join(into, 'sweep.json');
};

/** A sweep with its results in a folder, and how many cells were run. */
async function swept(
  path: string,
  kept: string,
): Promise<{ json: string; csv: string; html: string; rows: readonly SweepRow[]; ran: number }> {
  const read = readSweep(path, 'sweep.json'),
    tasks = await sweepTasks(read, path, model.tokenizer.encode);
  let ran = 0;
  const { rows, samples } = await sweepModel(
    'tiny',
    read,
    tasks,
    async (cells) => {
      const options = { name: 'cells', tasks, generation: generationOf(read), policies: read.policies, cells };
      return (await runExperiment(await cellExperiment(model, options), {
        start: here({ model }),
        size: 2,
        folder: kept,
        onResult: () => ran++,
      }))!; // nothing aborts it
    },
    undefined,
  );
  const outcome = { format: 1, rows, samples: { tiny: samples } } as const;
  const html = sweepReport(outcome, { command: 'kv eval <b>', sweep: read, versions: { kv: '1.2.3' }, hashes: {} });
  return { json: sweepJson(outcome), csv: sweepCsv(rows), html, rows, ran };
}

describe('a sweep', () => {
  it('has every policy at every budget, the full cache once, and the same bytes again', async () => {
    const path = written(),
      kept = folder(),
      first = await swept(path, kept);
    expect(first.rows.map(({ policy, budget, samples }) => [policy, budget, samples])).toEqual([
      ['full', undefined, 4],
      ['streaming', 24, 4],
      ['streaming', 48, 4],
      ['snapkv(window=8)', 24, 4],
      ['snapkv(window=8)', 48, 4],
    ]);
    expect(first.ran).toBe(20);
    const [full, ...others] = first.rows;
    for (const { peakSlots, meanSlots, budget } of others) {
      expect(meanSlots).toBeLessThan(full.meanSlots);
      expect(meanSlots).toBeLessThanOrEqual(Number(budget) + 2);
      expect(peakSlots).toBeGreaterThanOrEqual(Math.floor(meanSlots));
    }
    expect(await swept(path, kept)).toEqual({ ...first, ran: 0 });
    expect(await swept(path, folder())).toEqual(first);
    expect(first.csv.split('\r\n')).toHaveLength(1 + 5 + 1);
    expect(first.csv).toContain('tiny,problems.jsonl,full,,,,4,4,');
  });
  it('is written as Parquet: what a reader finds is what JSON says, null where it says nothing, equal bytes again', async () => {
    const { json } = await swept(written({ match: { policy: 'streaming', within: 0.05 } }), folder()),
      { rows, samples } = JSON.parse(json) as SweepOutcome,
      file = await sweepParquet(rows),
      read = (bytes: Uint8Array): Promise<Record<string, unknown>[]> =>
        parquetReadObjects({ file: bytes.slice().buffer });
    expect(await sweepParquet(rows)).toEqual(file);
    expect(await read(file)).toEqual(
      rows.map((row) => ({
        model: 'tiny',
        task: 'problems.jsonl',
        policy: row.policy,
        budget: row.budget?.toString() ?? null,
        cache: null,
        slots: row.slots === undefined ? null : BigInt(row.slots),
        problems: 4n,
        samples: 4n,
        accuracy: row.accuracy,
        low: row.interval?.low ?? null,
        high: row.interval?.high ?? null,
        unparsed: row.unparsed,
        'mean slots': row.meanSlots,
        'peak slots': BigInt(row.peakSlots),
        'mean bytes': row.meanBytes,
        'peak bytes': BigInt(row.peakBytes),
        matched: row.matched ?? null,
        shortfall: row.shortfall ?? null,
        perplexity: null,
        'perplexity low': null,
        'perplexity high': null,
      })),
    );
    const answers = await read(await answersParquet(samples));
    expect(answers).toHaveLength(samples.tiny.length);
    for (const [i, { problem, answer, score, budget, seed, evidence }] of samples.tiny.entries())
      expect(answers[i]).toMatchObject({
        model: 'tiny',
        problem,
        answer,
        score,
        budget: budget?.toString() ?? null,
        seed: BigInt(seed),
        depth: evidence.depth ?? null,
      });
    expect(await read(await sweepParquet([]))).toEqual([]);
  });
  it('loses no cell and counts none twice wherever its store was cut or spoiled', async () => {
    const path = written({ policies: ['streaming'], budgets: [24] }),
      kept = folder(),
      whole = await swept(path, kept),
      store = join(kept, readdirSync(kept)[0]),
      bytes = readFileSync(store);
    expect(whole.ran).toBe(4);
    for (const share of [0, 0.01, 0.3, 0.5, 0.77, 0.999]) {
      writeFileSync(store, bytes.subarray(0, Math.floor(share * bytes.length)));
      const again = await swept(path, kept);
      expect({ ...again, ran: 4 }, String(share)).toEqual(whole);
      expect(again.ran).toBeGreaterThan(0);
      expect(readFileSync(store, 'utf8').trim().split('\n')).toHaveLength(1 + 4);
    }
    const lines = bytes.toString('utf8').trim().split('\n');
    // a line twice, and one whose answer was changed
    writeFileSync(store, `${[...lines, lines[1], lines[2].replace('"score"', '"Score"')].join('\n')}\n`);
    expect(await swept(path, kept)).toEqual({ ...whole, ran: 0 });
    writeFileSync(store, `${lines.with(2, lines[2].replace('"tokens":', '"tokens":1')).join('\n')}\n`);
    expect(await swept(path, kept)).toEqual({ ...whole, ran: 1 });
  });
  it('counts problems, and has the interval that its report has, with several seeds too', async () => {
    const asked = async (seeds: readonly number[], temperature: number): ReturnType<typeof swept> =>
        swept(written({ policies: ['streaming'], budgets: [24], seeds, temperature }), folder()),
      [once, repeated, sampled] = [await asked([0], 0), await asked([0, 1], 0), await asked([0, 1], 3)];
    const said = ({ rows: [{ problems: of, samples, accuracy, interval }] }: typeof once) => [
      of,
      samples,
      accuracy,
      interval,
    ];
    const [{ accuracy: share, interval: same }] = once.rows;
    expect([said(once), said(repeated)]).toEqual([
      [4, 4, share, same],
      [4, 8, share, same],
    ]);
    for (const { rows, csv, html } of [once, repeated, sampled])
      for (const { interval, problems: of, samples, accuracy } of rows) {
        const { low, high } = interval!; // no task is read
        expect(low <= accuracy && accuracy <= high && of === 4).toBe(true);
        expect(csv).toContain(`,4,${samples},${accuracy},${low},${high},`);
        expect(html).toContain(`[${(100 * low).toFixed(1)}, ${(100 * high).toFixed(1)}]`);
        expect(html).toContain('(screening, n = 4)');
      }
  });
  it('declares contrasts after it has run, and runs nothing again', async () => {
    const kept = folder(),
      first = await swept(written(), kept),
      again = await swept(written({ contrasts: [{ policy: 'streaming', against: 'full' }] }), kept);
    expect([again.ran, again.json, readdirSync(kept)]).toEqual([0, first.json, [expect.any(String)]]);
  });
  it('re-budgets until mean caches agree, and reports what is short of the curve', async () => {
    const { rows } = await swept(written({ match: { policy: 'streaming', within: 0.05 } }), folder());
    for (const { policy, matched, slots, meanSlots, shortfall, budget, accuracy } of rows) {
      if (budget === undefined) continue;
      const same = rows.find((row) => row.policy === 'streaming' && row.budget === budget)!;
      expect(matched).toBe(Math.abs(meanSlots - same.meanSlots) <= 0.05 * same.meanSlots);
      expect(Number.isInteger(slots)).toBe(true);
      if (policy === 'streaming') expect([slots, shortfall]).toEqual([budget, 0]);
      else if (shortfall !== undefined && matched) expect(Math.abs(shortfall - accuracy)).toBeLessThanOrEqual(1);
    }
  });
  it('compares forms of caches in one table, each at the bytes of one policy in the first form', async () => {
    const match = { policy: 'streaming', bytes: 'mean', within: 0.05 },
      policies = ['full', 'streaming', 'snapkv(window=8)'],
      path = written({ caches: ['f16', 'q8'], policies, match, budgets: ['6KiB'], maxNewTokens: 2 }),
      { rows } = await swept(path, folder());
    expect(rows.map(({ policy, cache, budget }) => [policy, cache, budget])).toEqual(
      policies.flatMap((policy) =>
        ['f16', 'q8'].map((cache) => [policy, cache, policy === 'full' ? undefined : '6KiB']),
      ),
    );
    const [full, coarse, base, ...others] = rows;
    expect(full.meanBytes).toBeGreaterThan(1.25 * coarse.meanBytes);
    expect(base.slots).toBeUndefined(); // what the others are matched with has the budget that was asked for
    for (const { meanBytes, matched } of others) {
      expect(matched).toBe(true);
      expect(Math.abs(meanBytes - base.meanBytes)).toBeLessThanOrEqual(0.05 * base.meanBytes);
    }
    expect(others[0].meanSlots).toBeGreaterThan(1.2 * base.meanSlots); // 36 bytes a slot and head become 28
    expect(others[1].meanSlots).toBeLessThan(base.meanSlots); // queries that SnapKV records are bytes too
  });
  it('asks one side of the split alone, with budgets that were found to choose on', async () => {
    const asked = async (part?: 'dev' | 'confirm'): Promise<readonly (string | number | undefined)[][]> => {
      const { json } = await swept(written({ match: { policy: 'streaming', within: 0.05 }, part }), folder());
      const { rows, samples } = JSON.parse(json) as SweepOutcome;
      if (part !== undefined)
        for (const { problem: id } of samples.tiny) expect(isDev({ id }), id).toBe(part === 'dev');
      return rows.map(({ policy, budget, slots, samples: n }) => [policy, budget, slots, n]);
    };
    const [dev, held, all] = [await asked('dev'), await asked('confirm'), await asked()],
      dropped = (rows: typeof all): typeof all => rows.map((row) => row.slice(0, 3));
    expect([dropped(dev), dropped(held)]).toEqual([dropped(all), dropped(all)]);
    expect(dev.map((row, i) => Number(row[3]) + Number(held[i][3]))).toEqual(all.map((row) => row[3]));
    const one = problems.find(isDev)!, // the tests above ask both sides
      path = written({ part: 'confirm' });
    writeFileSync(join(path, '../problems.jsonl'), JSON.stringify(one));
    await expect(swept(path, folder())).rejects.toThrow('problems.jsonl: expected ids to confirm on, got none');
  });
  it('is foretold from a few problems of every arm', async () => {
    const timed: number[] = [],
      cost = async (change: object): ReturnType<typeof sweepCost> => {
        const path = written({ seeds: [0, 1, 2], ...change }),
          read = readSweep(path, 's'),
          tasks = await sweepTasks(read, path, model.tokenizer.encode);
        return sweepCost(
          read,
          tasks,
          2,
          (cells) => {
            timed.push(cells.length);
            return Promise.resolve(cells.map((_, i) => 10 * Math.ceil((i + 1) / 2)));
          },
          undefined,
        );
      };
    // five ways of two problems: 10, 20, 30, 40 and 50 seconds each; four problems and three seeds of each
    expect(await cost({})).toEqual({ cells: 60, seconds: 12 * 150, matching: { cells: 0, seconds: 0 } });
    expect(timed).toEqual([10]); // together, as the sweep has them
    const dev = problems.filter(isDev).length,
      matched = await cost({ match: { policy: 'streaming' }, part: 'dev' });
    expect([matched.cells, matched.matching.cells]).toEqual([5 * dev * 3, 2 * dev + 2 * 12 * dev]);
  });
  it('makes problems for the tokenizer of its model', async () => {
    const made = [{ task: 'niah_single_1', tokens: 900, problems: 2 }],
      path = written({ tasks: made }),
      tasks = await sweepTasks(readSweep(path, 's'), path, model.tokenizer.encode),
      [[called, [one]]] = Object.entries(tasks);
    expect(called).toBe('niah_single_1@900/0');
    const length = model.tokenizer.encode(one.context + one.question).ids.length + one.maxNewTokens;
    expect(length).toBeLessThanOrEqual(900);
    await expect(
      sweepTasks(readSweep(written({ tasks: [...made, ...made] }), 's'), path, model.tokenizer.encode),
    ).rejects.toThrow('tasks: expected each task once, got niah_single_1@900/0 twice');
    await expect(
      sweepTasks(readSweep(written({ tasks: [{ ...made[0], tokens: 9 }] }), 's'), path, model.tokenizer.encode),
    ).rejects.toThrow(/^niah_single_1@9\/0: niah_noise: tokens must be at least \d+, which .*, got 9$/);
  });
  it('is refused in one sentence where it cannot be run', async () => {
    for (const [change, said] of [
      [{ models: ['tiny', 'tiny'] }, 's: models must have different names, got tiny, tiny'],
      [{ models: ['tiny', { name: 'tiny', model: 'other' }] }, 's: models must have different names, got tiny, tiny'],
      [{ models: [{ model: 'tiny' }] }, 's: models.0 must have the field name, got {"model":"tiny"}'],
      [{ budgets: ['a quarter'] }, 's, budgets.0: must be a whole number of slots'],
      [{ budgets: ['64 MiB'] }, 's, budgets.0: must be in units of 1,024 bytes'],
      [{ budgets: ['25% of q9'] }, "(B, KiB, MiB or GiB), got '25% of q9'"],
      [{ caches: ['q9'] }, /^s: caches\.0 must be .*, got "q9"$/],
      [{ policies: [] }, 's: policies must not have fewer than 1 items, got []'],
      [
        { tasks: [{ task: 'niah', tokens: 9, problems: 1 }] },
        /^s: tasks\.0\.task must be one of niah_single_1, .*, chain, perplexity( \(did you mean .*\?\))?, got "niah"$/,
      ],
      [{ match: { policy: 'knorm' } }, 's: match.policy must be one of policies, got "knorm"'],
      [
        { match: { policy: 'full' }, budgets: ['25%'] },
        's: budgets must be numbers of slots or bytes where match is given, got a share',
      ],
      [
        { contrasts: [{ policy: 'knorm', against: 'full' }] },
        's: contrasts.0.policy must be one of policies, got "knorm"',
      ],
      [
        { contrasts: [{ policy: 'full', against: 'knorm' }] },
        's: contrasts.0.against must be one of policies, got "knorm"',
      ],
      [
        { contrasts: [{ policy: 'full', against: 'full' }] },
        's: contrasts.0.against must be another than its policy, got "full"',
      ],
      [
        { caches: ['f16'], contrasts: [{ policy: 'full', against: 'full', caches: ['q8', 'f16'] }] },
        's: contrasts.0.caches must be two of caches (f16), got "q8"',
      ],
      [{ contrasts: [] }, 's: contrasts must not have fewer than 1 items, got []'],
      [{ polices: ['full'] }, 's: polices is no field that is known (did you mean policies?), got ["full"]'],
      [{ typo: 1 }, 's: typo is no field that is known (there are models, policies, tasks, budgets, '],
      [
        { tasks: [{ task: 'vt', tokens: 9, problems: 1, sead: 2 }] },
        's: tasks.0.sead is no field that is known (did you mean seed or read?), got 2',
      ],
      [{ models: undefined, tasks: undefined }, /^s: expected the fields models, tasks, got \{/],
    ] as const)
      expect(() => readSweep(written(change), 's'), JSON.stringify(change)).toThrow(said);
    const pair = written({
      caches: ['f16', 'q8'],
      contrasts: [{ policy: 'full', against: 'full', caches: ['q8', 'f16'] }],
    });
    expect(readSweep(pair, 's', ['q8', 'f16', 'f32']).caches).toEqual(['q8', 'f16', 'f32']);
    expect(() => readSweep(pair, 's', ['f32', 'q8'])).toThrow(
      's: contrasts.0.caches must be two of caches (f32, q8), got "f16"',
    );
    for (const [policy, said] of [
      [
        'streamng',
        /^s: policies\.1: expected the name of a method or piece \(did you mean streaming( or .*)?\?\), got 'streamng'$/,
      ],
      ['snapkv(windw=8)', /^s: policies\.1: snapkv: .*windw/],
    ] as const)
      await expect(checkPolicies(readSweep(written({ policies: ['full', policy] }), 's'), 's')).rejects.toThrow(said);
    await checkPolicies(readSweep(written(), 's'), 's');
    for (const tasks of [['/dev/zero'], ['.']]) {
      const path = written({ tasks });
      await expect(sweepTasks(readSweep(path, 's'), path, model.tokenizer.encode)).rejects.toThrow(
        `${tasks[0]}: is not a regular file`,
      );
    }
    await expect(swept(written({ maxNewTokens: 60_000 }), folder())).rejects.toThrow(
      /^problems.jsonl: expected problems that fit the \d+ tokens of /,
    );
  });
});
