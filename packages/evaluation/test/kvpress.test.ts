import { cpSync, mkdirSync, readdirSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { dirname, join } from 'node:path';
import { fileURLToPath } from 'node:url';
import fc from 'fast-check';
import { writeTinyModel } from '@kv/model-testing';
import { compile } from '@kv/core/engine';
import { policySizes } from '@kv/engine';
import { loadModel } from '@kv/models';
import { parsePolicy } from '@kv/policies';
import { wilson } from '@kv/tasks';
import type { Problem } from '@kv/tasks';
import { describe, expect, it } from 'vitest';
import { cellResult } from '../src/cells/types.ts';
import { kvpressFiles, readKvpress, readSweep, sweepCsv, sweepParquet, sweepReport } from '../src/index.ts';
import type { CellResult } from '../src/index.ts';
import { numpyStrings, stringsOf } from '../src/kvpress/python.ts';
import { folder } from './folder.ts';

// written by kvpress' own EvaluationRunner: tools/reference-models/kvpress_results.py
const RESULTS = fileURLToPath(new URL('data/kvpress', import.meta.url)),
  FULL = 'ruler__512__packages--model-embedded__no_press__0.00',
  KNORM = 'ruler__512__packages--model-embedded__knorm__0.50';
const metricsOf = (name: string): Record<string, { string_match: number }> =>
  JSON.parse(readFileSync(join(RESULTS, name, 'metrics.json'), 'utf8')) as Record<string, { string_match: number }>;

describe("kvpress' result folders", () => {
  it('become rows, right as often as kvpress says, with intervals', async () => {
    const rows = await readKvpress(RESULTS, 'results'),
      by = (policy: string): typeof rows => rows.filter((row) => row.policy === policy);
    expect(rows).toHaveLength(6);
    expect(by('kvpress: no_press')).toEqual([
      {
        model: 'packages/model-embedded',
        task: 'ruler/512/niah_single_1',
        policy: 'kvpress: no_press',
        samples: 3,
        accuracy: 1,
        unparsed: 0,
        interval: wilson(3, 3),
      },
      {
        model: 'packages/model-embedded',
        task: 'ruler/512/qa_1',
        policy: 'kvpress: no_press',
        samples: 3,
        accuracy: 2 / 3,
        unparsed: 0,
        interval: wilson(2, 3),
      },
    ]);
    expect(by('kvpress: knorm').map(({ budget, accuracy }) => [budget, accuracy])).toEqual([
      ['50%', 0],
      ['50%', 0],
    ]);
    expect(by('kvpress: snapkv, query-aware').map(({ budget }) => budget)).toEqual(['25%', '25%']);
    expect(metricsOf(FULL)).toEqual({ niah_single_1: { string_match: 100 }, qa_1: { string_match: 66.67 } });
    expect(await readKvpress(join(RESULTS, KNORM), 'one')).toEqual(by('kvpress: knorm'));
  });
  it('follow our rows in the CSV, the Parquet file and the report', async () => {
    const rows = await readKvpress(RESULTS, 'results'),
      html = sweepReport(
        { format: 1, rows: [], samples: {}, others: rows },
        {
          ...{ command: 'kv eval', versions: {}, hashes: {} },
          sweep: { models: ['m'], policies: ['knorm'], tasks: ['t'], budgets: [1] },
        },
      );
    expect(sweepCsv(rows).split('\r\n')[1]).toMatch(
      /^packages\/model-embedded,ruler\/512\/\w+,"?kvpress: knorm"?,50%,,,3,3,0,0,/,
    );
    expect((await sweepParquet(rows)).length).toBeGreaterThan(500);
    expect(html).toContain('Results of other libraries');
    expect(html).toContain('kvpress: snapkv, query-aware');
  });

  const spoiled: readonly (readonly [what: string, file: string, change: (text: string) => string, said: RegExp])[] = [
    ['no YAML', 'config.yaml', () => 'a: [', /config\.yaml: expected YAML, got [^\n]+$/],
    [
      'a ratio above 1',
      'config.yaml',
      (text) => text.replace('0.5', '1.5'),
      /config\.yaml: compression_ratio must be <= 1, got 1\.5$/,
    ],
    [
      'no press',
      'config.yaml',
      (text) => text.replace(/^press_name.*\n/m, ''),
      /config\.yaml: expected the field press_name/,
    ],
    ['aliases without end', 'config.yaml', () => bomb, /config\.yaml: expected YAML, got [^\n]+$/],
    [
      'another data set',
      'config.yaml',
      (text) => text.replace('ruler', 'loogle'),
      /predictions\.csv, row 1: expected a score from 0 to 1, since "loogle" is none of ruler, .*, got null$/,
    ],
    [
      'a torn line',
      'predictions.csv',
      (text) => text.slice(0, text.length - 40),
      /(?:predictions\.csv: expected CSV, got [^\n]+|metrics\.json: expected [^\n]+)$/,
    ],
    [
      'no answers',
      'predictions.csv',
      (text) => text.slice(0, text.indexOf('\n') + 1),
      /predictions\.csv: expected at least one answer, got none$/,
    ],
    [
      'no such column',
      'predictions.csv',
      (text) => text.replace('predicted_answer', 'prediction'),
      /predictions\.csv: expected a column predicted_answer, got none$/,
    ],
    [
      'a list cut off',
      'predictions.csv',
      (text) => text.replace("['4812937']", "['4812937'"),
      /predictions\.csv, row 1: expected a list of answers, got "\['4812937'"$/,
    ],
    ['no JSON', 'metrics.json', () => '{', /metrics\.json: [^\n]+$/],
    [
      'other numbers',
      'metrics.json',
      (text) => text.replace('0.0', '50.0'),
      /metrics\.json: expected string_match of niah_single_1 0, as predictions\.csv has it, got 50$/,
    ],
    ['another task', 'metrics.json', (text) => text.replace('qa_1', '__proto__'), /metrics\.json: expected /],
    [
      'no number',
      'metrics.json',
      (text) => text.replace('0.0', '"all"'),
      /metrics\.json: niah_single_1\.string_match must be a number, got "all"$/,
    ],
  ];
  const bomb = `a: &a [x,x,x,x,x,x,x,x]\n${[...'bcdefghi'].map((k, i) => `${k}: &${k} [${Array(8).fill(`*${'abcdefgh'[i]}`).join()}]`).join('\n')}\n`;
  it.each(spoiled)('are refused in one sentence with %s', async (_, file, change, said) => {
    const within = join(folder(), 'r');
    cpSync(join(RESULTS, KNORM), within, { recursive: true });
    writeFileSync(join(within, file), change(readFileSync(join(within, file), 'utf8')));
    await expect(readKvpress(within, 'r')).rejects.toThrow(said);
    await expect(readKvpress(within, 'r')).rejects.toThrow(/^[^\n]+$/);
  });
  it('are refused where a file is missing, or there are none', async () => {
    const within = join(folder(), 'r');
    for (const file of ['config.yaml', 'predictions.csv', 'metrics.json']) {
      cpSync(join(RESULTS, KNORM), within, { recursive: true });
      rmSync(join(within, file));
      await expect(readKvpress(within, 'r')).rejects.toThrow(`r/${file}: expected a file that can be read, got ENOENT`);
    }
    await expect(readKvpress(folder(), 'r')).rejects.toThrow('r: expected result folders of kvpress, with config.yaml');
    await expect(readKvpress(join(within, 'none'), 'r')).rejects.toThrow(/^r: expected a folder that exists, got none/);
  });
});

describe('answers as result folders', () => {
  const problem = (id: string, answers: readonly string[]): Problem => ({
    id,
    context: 'Some words, "quoted"\nand more. '.repeat(4),
    question: `Which, ${id}?`,
    answers,
    grader: 'all',
    maxNewTokens: 8,
  });
  const tasks = {
      'niah_single_1@512/0': [problem('a', ['123']), problem('b', ["it's", '77'])],
      'own.jsonl': [problem('c', ['x'])],
    },
    sweep = {
      models: ['org/tiny'],
      policies: ['full', 'knorm', 'h2o'],
      tasks: [{ task: 'niah_single_1', tokens: 512, problems: 2 }, 'own.jsonl'],
      budgets: ['50%', 40],
    };
  const answers = { a: '123', b: 'line\n"77"', c: 'no' } as Readonly<Record<string, string>>;
  const cell = (task: string, one: Problem, arm: Partial<CellResult>, answer: string): CellResult =>
    cellResult({ task, problem: one.id, seed: 0, ...arm } as CellResult, one, {
      answer,
      tokens: 1,
      slots: { mean: 1, peak: 1 },
      bytes: { mean: 1, peak: 1 },
      evidence: {},
    });
  const samples = Object.entries(tasks).flatMap(([task, problems]) =>
    problems.flatMap((one) =>
      [['full'], ['knorm', '50%'], ['knorm', 40], ['h2o', 40]].map(([policy, budget]) =>
        cell(task, one, { policy, ...(budget !== undefined && { budget }) } as Partial<CellResult>, answers[one.id]),
      ),
    ),
  );
  const writtenOf = async (
    of: object,
    { tasks: asked, samples: answered }: Pick<Parameters<typeof kvpressFiles>[1], 'tasks' | 'samples'>,
  ): Promise<string> => {
    const into = folder(),
      out = folder(),
      { config, tokenizer } = await loadModel(writeTinyModel(join(into, 'tiny')));
    writeFileSync(join(into, 'sweep.json'), JSON.stringify(of));
    const read = readSweep(join(into, 'sweep.json'), 's'),
      options = { sweep: read, tasks: asked, samples: answered, encode: tokenizer.encode, config },
      files = await kvpressFiles('org/tiny', options);
    expect(await kvpressFiles('org/tiny', options)).toEqual(files);
    for (const { path, text } of files) {
      mkdirSync(dirname(join(out, path)), { recursive: true });
      writeFileSync(join(out, path), text);
    }
    return out;
  };
  const written = (mode: 'aware' | 'agnostic'): Promise<string> => writtenOf({ ...sweep, mode }, { tasks, samples });
  it("have kvpress' names, columns, metrics and fields in their order", async () => {
    const out = await written('agnostic');
    // 124 characters of context, and the start of the text: 1 - 40 / 125
    expect(readdirSync(out).sort()).toEqual([
      'own__org--tiny__knorm__0.50',
      'own__org--tiny__knorm__0.68',
      'own__org--tiny__kv_h2o__0.68',
      'own__org--tiny__no_press__0.00',
      'ruler__512__org--tiny__knorm__0.50',
      'ruler__512__org--tiny__knorm__0.68',
      'ruler__512__org--tiny__kv_h2o__0.68',
      'ruler__512__org--tiny__no_press__0.00',
    ]);
    const file = (name: string): string => readFileSync(join(out, 'ruler__512__org--tiny__knorm__0.50', name), 'utf8'),
      keys = (text: string): readonly string[] => [...text.matchAll(/^(\w+):/gm)].map(([, key]) => key);
    expect(keys(file('config.yaml'))).toEqual(keys(readFileSync(join(RESULTS, KNORM, 'config.yaml'), 'utf8')));
    for (const line of [
      "data_dir: '512'",
      'compression_ratio: 0.5',
      'fraction: 1.0',
      'device: null',
      'model_kwargs: {}',
      'fp8: false',
    ])
      expect(file('config.yaml').split('\n')).toContain(line);
    expect(file('metrics.json')).toBe('{\n    "niah_single_1": {\n        "string_match": 75.0\n    }\n}');
    expect(file('predictions.csv').split('\n')[0]).toBe(
      'question,answer_prefix,answer,task,max_new_tokens,predicted_answer,compression_ratio,score',
    );
    expect(file('predictions.csv')).toContain(
      '"Which, b?",,"[""it\'s"" \'77\']",niah_single_1,8,"line\n""77""",0.5,0.5\n',
    );
  });
  it('are read back as what they were', async () => {
    const rows = await readKvpress(await written('aware'), 'out');
    expect(rows.map(({ task, policy, budget, samples: n, accuracy }) => [task, policy, budget, n, accuracy])).toEqual(
      expect.arrayContaining([
        ['own', 'kvpress: no_press, query-aware', undefined, 1, 0],
        ['ruler/512/niah_single_1', 'kvpress: knorm, query-aware', '50%', 2, 0.75],
      ]),
    );
    expect(rows).toHaveLength(8);
  });
  it('are read back under the names of files that kvpress has too', async () => {
    const one = { ...problem('x', ['2']), grader: 'boxed' } as const,
      qa = { ...problem('y', ['no', 'none']), grader: 'any' } as const,
      files = {
        'math500.jsonl': [one, '\\boxed{2}', 1],
        'aime25.json': [one, 'no: \\boxed{3}', 0],
        'longbench.jsonl': [qa, 'no', 1],
        'infinitebench.jsonl': [qa, 'yes', 0],
        'ruler.jsonl': [qa, 'no', 1],
      } as const,
      all = Object.entries(files),
      rows = await readKvpress(
        await writtenOf(
          { ...sweep, policies: ['full'], tasks: Object.keys(files) },
          {
            tasks: Object.fromEntries(all.map(([name, [asked]]) => [name, [asked]])),
            samples: all.map(([name, [asked, said]]) => cell(name, asked, { policy: 'full' }, said)),
          },
        ),
        'out',
      );
    expect(Object.fromEntries(rows.map(({ task, accuracy }) => [task, accuracy]))).toEqual({
      ...{ math500: 1, aime25: 0, kv_longbench: 1, kv_infinitebench: 0, kv_ruler: 1 },
    });
  });
  it('say what bytes leave of a prompt under the policy', async () => {
    const policies = ['knorm | topK', 'knorm | topK | levels(f16=1)'],
      own = tasks['own.jsonl'],
      out = await writtenOf(
        { ...sweep, policies, tasks: ['own.jsonl'], budgets: ['1KiB'] },
        {
          tasks: { 'own.jsonl': own },
          samples: policies.map((policy) => cell('own.jsonl', own[0], { policy, budget: '1KiB' }, 'no')),
        },
      ),
      { config, tokenizer } = await loadModel(writeTinyModel(join(folder(), 'tiny'))),
      n = tokenizer.encode(own[0].context + own[0].question).ids.length;
    expect(
      readdirSync(out)
        .map((name) => /\d\.\d\d/.exec(name)?.[0])
        .sort(),
    ).toEqual(
      policies
        .map((text) => 1024 / policySizes(config, 'f32', compile(parsePolicy(text))).bytesPerSlot)
        .map((slots) => (1 - slots / n).toFixed(2))
        .sort(),
    );
  });
  it('hold lists of strings as numpy prints them, whatever is in these', () => {
    fc.assert(
      fc.property(
        fc.array(fc.string({ unit: fc.nat(0x2fff).map((code) => String.fromCharCode(code)), maxLength: 12 }), {
          maxLength: 4,
        }),
        (texts) => {
          expect(stringsOf(numpyStrings(texts))).toEqual(texts);
        },
      ),
    );
    expect(stringsOf("['a', \"b'\", 'c\\n\\x41']")).toEqual(['a', "b'", 'c\nA']);
    for (const text of ['', '[', "['a'", "['a' b]", "'a']", '[1]', "['a]"])
      expect(stringsOf(text), text).toBeUndefined();
  });
});
