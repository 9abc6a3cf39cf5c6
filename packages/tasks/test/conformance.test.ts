import { readFileSync } from 'node:fs';
import { describe, expect, it } from 'vitest';
import {
  bonferroni,
  clusteredError,
  generatedTasks,
  grade,
  holm,
  mcnemar,
  pairedDifference,
  pairedTest,
  postprocess,
  wilson,
} from '../src/index.ts';
import type { Confidence, GeneratedTask, GraderName } from '../src/index.ts';
import { made } from './made.ts';

const data = (file: string): unknown => JSON.parse(readFileSync(new URL(`data/${file}`, import.meta.url), 'utf8'));

interface Answers {
  cases: { metric: string; pred: string; truth: string; all_classes?: string[]; score: number }[];
  ruler_string_match: { preds: string[]; refs: string[][]; all: number; part: number }[];
  postprocess: { raw: string; ruler: string }[];
}
const NAMES: Readonly<Record<string, GraderName>> = {
  qa_f1_score: 'f1',
  count_score: 'count',
  retrieval_score: 'retrieval',
  classification_score: 'classification',
  code_sim_score: 'code',
  rouge_score: 'rougeL',
};

it('graders agree with the unmodified code of LongBench and RULER', () => {
  const answers = data('metric-vectors.json') as Answers;
  for (const { metric, pred, truth, all_classes: classes, score } of answers.cases) {
    const given = grade(pred, { grader: NAMES[metric], answers: [truth], ...(classes && { classes }) });
    expect(given.score, `${metric} of ${JSON.stringify(pred)}`).toBeCloseTo(score, 12);
  }
  for (const { preds, refs, all, part } of answers.ruler_string_match) {
    expect(100 * grade(preds[0], { grader: 'all', answers: refs[0] }).score).toBeCloseTo(all, 2);
    expect(100 * grade(preds[0], { grader: 'any', answers: refs[0] }).score).toBeCloseTo(part, 2);
  }
  for (const { raw, ruler } of answers.postprocess) expect(postprocess(raw)).toBe(ruler);
});

describe('statistics agree with every vector', () => {
  interface Vectors {
    multiple: { p: number[]; bonferroni: number[]; holm: number[] }[];
    clustered_stderr: { partition: number[][]; se: number }[];
    mcnemar_exact: { b: number; c: number; p: number }[];
    wilson: { k: number; n: number; conf: Confidence; lo: number; hi: number }[];
    exact_cluster_bootstrap: {
      clusters: number[][];
      delta: number;
      ci95_percentile_linear: [number, number];
      p_two_sided_percentile: number;
    }[];
    exact_cluster_signflip: { clusters: number[][]; p: number }[];
  }
  const vectors = data('stats-vectors.json') as Vectors;
  it('of Wilson intervals', () => {
    for (const { k, n, conf, lo, hi } of vectors.wilson) {
      const { low, high } = wilson(k, n, conf);
      expect(
        [low, high].map((x, i) => Math.abs(x - [lo, hi][i]) < 1e-14),
        `${k}/${n}`,
      ).toEqual([true, true]);
    }
  });
  it('of paired differences: they converge to the full enumeration', () => {
    for (const {
      clusters,
      delta,
      ci95_percentile_linear: [low, high],
      p_two_sided_percentile: p,
    } of vectors.exact_cluster_bootstrap) {
      const found = pairedDifference(clusters, { resamples: 40_000, seed: 7 });
      expect(found.difference).toBeCloseTo(delta, 12);
      expect(Math.abs(found.p - p)).toBeLessThan(0.01);
      expect(Math.abs(found.low - low)).toBeLessThan(0.02);
      expect(Math.abs(found.high - high)).toBeLessThan(0.02);
    }
  });
  it('of sign flips: p is theirs, or the larger one of the bootstrap', () => {
    const options = { resamples: 40_000, seed: 7 };
    for (const { clusters, p } of vectors.exact_cluster_signflip)
      expect(pairedTest(clusters, options).p).toBeCloseTo(Math.max(pairedDifference(clusters, options).p, p), 12);
  });
  it('of p-values over a family, and of errors of clusters', () => {
    for (const { p, bonferroni: plain, holm: stepped } of vectors.multiple) {
      bonferroni(p).forEach((one, i) => expect(one).toBeCloseTo(plain[i], 14));
      holm(p).forEach((one, i) => expect(one).toBeCloseTo(stepped[i], 14));
    }
    for (const { partition, se } of vectors.clustered_stderr) expect(clusteredError(partition)).toBeCloseTo(se, 14);
  });
  it("of McNemar's test", () => {
    for (const { b, c, p } of vectors.mcnemar_exact) expect(mcnemar(b, c), `${b}, ${c}`).toBeCloseTo(p, 12);
  });
});

it('generated tasks are the eleven synthetic ones of RULER, with the numbers of its own configuration', () => {
  const blocks = Object.entries(data('ruler-tasks.json') as Readonly<Record<string, Readonly<Record<string, string>>>>);
  expect(blocks.map(([name]) => name)).toEqual(generatedTasks.slice(0, 11));
  for (const [name, args] of blocks.filter(([key]) => key.startsWith('niah'))) {
    const [{ context, question, answers }] = made(name as GeneratedTask);
    expect(answers).toHaveLength(Number(args.num_needle_v) * Number(args.num_needle_q));
    const facts = context.match(/One of the special magic (\w+) for (\S+) is: (\S+)\./g) ?? [];
    expect(facts[0]).toContain(`magic ${args.type_needle_v} for `);
    const keys = Math.max(Number(args.num_needle_k), Number(args.num_needle_q)) * Number(args.num_needle_v);
    if (args.type_haystack === 'needle') expect(facts.length).toBeGreaterThan(10);
    else expect(facts).toHaveLength(keys);
    expect(context.includes('The grass is green.')).toBe(args.type_haystack === 'noise');
    expect(question).toMatch(
      answers.length === 1 ? /^What is the special magic \w+[^s] for / : /^What are all the special magic \w+s for /,
    );
  }
});
