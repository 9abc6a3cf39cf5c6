import { createHash } from 'node:crypto';
import { wilson } from '@kv/tasks';
import fc from 'fast-check';
import { expect, it } from 'vitest';
import { answerTokens, keptOf } from '../src/cells/evidence.ts';
import { intervalOf } from '../src/grouped.ts';
import { failures, groupsOf, wholeOf } from '../src/report/groups.ts';
import { sweepReport } from '../src/index.ts';
import type { CellResult, Evidence, Sweep, SweepRow } from '../src/index.ts';
import type { SweepOutcome } from '../src/sweep/write.ts';

/** A cell of problem i, right or wrong. */
const cell = (
  policy: string,
  budget: number | undefined,
  i: number,
  score: number,
  evidence: Evidence = {},
): CellResult => ({
  id: `${policy}/${budget}/${i}`,
  task: 'numbers <&>',
  problem: `p${i}`,
  policy,
  ...(budget !== undefined && { budget }),
  seed: 0,
  answer: '',
  score,
  parsed: true,
  tokens: 1,
  slots: { mean: 10, peak: 10 },
  bytes: { mean: 1024 * (budget ?? 64), peak: 2048 * (budget ?? 64) },
  evidence,
});
const row = (policy: string, budget: number | undefined, cells: readonly CellResult[]): SweepRow => ({
  model: 'm',
  task: 'numbers <&>',
  policy,
  ...(budget !== undefined && { budget }),
  problems: new Set(cells.map(({ problem }) => problem)).size,
  samples: cells.length,
  accuracy: cells.reduce((sum, { score }) => sum + score, 0) / cells.length,
  unparsed: 0,
  meanSlots: budget ?? 64,
  peakSlots: budget ?? 64,
  meanBytes: 2 ** 16,
  peakBytes: 1,
});
const N = 40;
const full = Array.from({ length: N }, (_, i) => cell('full', undefined, i, Number(i % 10 !== 0)));
const cut = Array.from({ length: N }, (_, i) =>
  cell('cut', 16, i, Number(i % 4 === 1), {
    depth: i / (N - 1),
    ...(i % 6 < 4 && { answerKept: [1, 0.25, 0.875, 0][i % 6] }),
    dropped: 0.125,
    least: 0.0625,
    overlap: 0.5,
    map: Buffer.from(new Uint8Array(64).fill(255)).toString('base64'),
  }),
);
const outcome: SweepOutcome = {
  format: 1,
  rows: [row('full', undefined, full), row('cut', 16, cut)],
  samples: { m: [...full, ...cut] },
};
const sweep: Sweep = { models: ['m'], policies: ['full', 'cut'], tasks: ['numbers <&>'], budgets: [16] };
const facts = { command: 'kv eval <s>.json', sweep, versions: { kv: '9.8.7' }, hashes: { 'weights of m': 'abc' } };

it('tells wrong answers by the heads that held their tokens, as a count by hand does', () => {
  const groups = groupsOf(outcome),
    found = failures(groups[1], wholeOf(groups[1], groups));
  const want = { wrong: 0, beyond: 0, all: 0, some: 0, none: 0, unknown: 0 };
  for (let i = 0; i < N; i++) {
    if (i % 4 === 1) continue;
    want.wrong++;
    want[i % 10 === 0 ? 'beyond' : (['all', 'some', 'some', 'none', 'unknown', 'unknown'] as const)[i % 6]]++;
  }
  expect(found).toEqual(want);
  expect(Object.values(want).every((count) => count > 0)).toBe(true);
  const html = sweepReport(outcome, facts),
    [, line = ''] = /<th scope="row">cut at 16<\/th>(.*?)<\/tr>/.exec(html) ?? [];
  expect(line.match(/(?<=<td>)\d*(?=<\/td>)/g)).toEqual(Object.values(want).map(String));
  for (const title of ['wrong', 'the full cache fails too', 'kept in all heads', 'kept in some', 'kept in none'])
    expect(html).toContain(`<th scope="col">${title}</th>`);
  expect(html).toContain('<th scope="col">peak bytes</th>');
  const alone = { ...outcome, rows: outcome.rows.slice(1) }; // without a full cache, its answers are unknown
  expect(sweepReport(alone, facts)).toContain(`<td>${want.wrong}</td><td></td>`);
});

it('says its conditions in a sentence, and holds the whole sweep, without what is not for others', () => {
  const html = sweepReport(outcome, facts),
    said = 'Query-aware: the question is in the prompt before the eviction; the prompt passes as a whole; no events';
  expect(html).toContain(
    `<p>${said} while an answer is generated; greedy (temperature 0); at most as many new tokens as each problem says; ids of both parts (dev and confirm).</p>`,
  );
  const [, shown = ''] = /<pre>([^]*?)<\/pre>/.exec(html) ?? [];
  expect(shown).not.toMatch(/[<>]/);
  const plain = shown
    .replaceAll('&quot;', '"')
    .replaceAll('&lt;', '<')
    .replaceAll('&gt;', '>')
    .replaceAll('&amp;', '&');
  expect(JSON.parse(plain)).toEqual(sweep);
  expect(html).toContain('Comparisons with the full cache: 1.');
  expect(sweepReport({ ...outcome, code: ['@kv/core@0.0.0+0a', 'yaml@1.0.0'] }, facts)).toContain(
    '<dt>code</dt><dd>@kv/core@0.0.0+0a, yaml@1.0.0</dd>',
  );
  const other: Sweep = {
    ...sweep,
    ...{ mode: 'agnostic', block: 64, every: 8, temperature: 0.5, topP: 0.9, maxNewTokens: 7, part: 'confirm' },
    match: { policy: 'SECRET' },
  };
  const redacted = sweepReport(outcome, { ...facts, sweep: other, redact: (text) => text.replace('SECRET', 'cut') });
  expect(redacted).toContain(
    '<p>Query-agnostic: the question comes after the eviction; the prompt passes in blocks of 64 tokens; an event every 8 tokens of an answer; sampled at temperature 0.5, top-p 0.9; at most 7 new tokens; only ids to confirm on (confirm); every policy at the mean cache of cut within 1 %.</p>',
  );
  expect(redacted).not.toContain('SECRET');
});

it('begins with sentences that hold intervals, and says that few problems are a screening', () => {
  const html = sweepReport(outcome, facts),
    { low, high } = wilson(36, 40);
  expect(html).toContain(
    `answers 90.0 % [${(100 * low).toFixed(1)}, ${(100 * high).toFixed(1)}] of numbers &lt;&amp;&gt; on m with 64.0 KiB on average (screening, n = 40)`,
  );
  expect(html).toMatch(/cut<\/strong> at 16 slots answers 25\.0 % .*: worse than the full cache, -65\.0 points \[/);
  expect(html.indexOf('<ol class="verdicts">')).toBeLessThan(html.indexOf('<svg class="chart"'));
  for (const text of ['kv eval &lt;s&gt;.json', '9.8.7', 'abc', '12.5 %', '6.3 %', '50.0 %'])
    expect(html).toContain(text);
});

it('compares no budget that evicted nothing with the full cache', () => {
  const roomy = full.map((one) => ({ ...one, policy: 'roomy', budget: 64 })),
    html = sweepReport(
      { ...outcome, rows: [...outcome.rows, row('roomy', 64, roomy)], samples: { m: [...full, ...cut, ...roomy] } },
      facts,
    );
  expect(html).toMatch(
    /roomy<\/strong> at 64 slots, nothing evicted, answers 90\.0 % [^:]*\(screening, n = 40\)\.<\/li>/,
  );
  expect(html).toContain('Comparisons with the full cache: 1.');
});

it('compares with a policy that reads everything, and what hides slots with it', () => {
  const hidden = full.map((one, i) => ({ ...one, policy: 'quest', score: Number(i % 4 === 1) })),
    quest = { ...row('quest', undefined, hidden), alters: true as const },
    outcomeOf = (...rows: SweepRow[]): SweepOutcome => ({
      format: 1,
      rows,
      samples: { m: [...hidden, ...full, ...cut] },
    }),
    html = sweepReport(outcomeOf(quest, ...outcome.rows), facts);
  expect(html).toMatch(
    /quest<\/strong>, nothing evicted, answers 25\.0 % .*: worse than the full cache, -65\.0 points/,
  );
  expect(html).toMatch(/cut<\/strong> at 16 slots answers 25\.0 % .*: worse than the full cache, -65\.0 points/);
  expect(html).toContain('Comparisons with the full cache: 2.');
  // without one there is nothing to compare with
  const alone = sweepReport(outcomeOf(quest, outcome.rows[1]), facts);
  expect(alone).toContain('Comparisons with the full cache: 0; there is none where no policy of the sweep keeps');
});

it('has the mean in its interval, whatever the number of answers to each document', () =>
  fc.assert(
    fc.property(
      fc.array(fc.tuple(fc.integer({ min: 1, max: 12 }), fc.constantFrom(0 as number, 1)), { minLength: 2 }),
      (drawn) => {
        const documents = drawn.map(([n, score]) => Array.from({ length: n }, () => score)),
          all = documents.flat(),
          mean = all.reduce((a, b) => a + b) / all.length,
          { low, high } = intervalOf(documents);
        expect(low - 1e-9 <= mean && mean <= high + 1e-9).toBe(true);
      },
    ),
    {
      numRuns: 60,
      examples: [
        [
          [
            [10, 1],
            [1, 0],
            [1, 0],
          ],
        ],
      ],
    },
  ));

it('takes problems, not answers, for n: seeds that repeat an answer are no evidence', () => {
  const twice = (cells: readonly CellResult[]): CellResult[] =>
      cells.flatMap((one) => [one, { ...one, id: `${one.id}/1`, seed: 1 }]),
    said = (n: number, all: typeof twice): string[] => {
      const [kept, lost] = [
        Array.from({ length: n }, (_, i) => cell('full', undefined, i, 1)),
        Array.from({ length: n }, (_, i) => cell('cut', 16, i, 0)),
      ].map(all);
      const html = sweepReport(
        { format: 1, rows: [row('full', undefined, kept), row('cut', 16, lost)], samples: { m: [...kept, ...lost] } },
        facts,
      );
      return html.match(/<li><strong>.*<\/li>/g) ?? [];
    };
  const [whole, cut] = said(3, twice);
  expect([whole, cut]).toEqual(said(3, (cells) => [...cells]));
  expect(whole).toContain('answers 100.0 % [43.9, 100.0]');
  expect(whole).toContain('(screening, n = 3)');
  // three problems, all worse: signs alone give 2 of 8
  expect(cut).toContain('undecided against the full cache, -100.0 points [-100.0, +41.5], p = 0.2500, 0.2500 after');
  expect(said(8, twice)[1]).toContain('worse than the full cache, -100.0 points [-100.0, -26.1], p = 0.0078, 0.0078');
  expect(said(1, twice)[1]).toContain('undecided against the full cache, -100.0 points [-100.0, +95.0], p = 1.0000');
  expect(sweepReport(outcome, facts)).toContain('p is two-sided, the larger of two: ');
});

it('is one file: its own style by its hash, no script, no address, no style of an element', () => {
  const html = sweepReport(outcome, facts),
    [, style = ''] = /<style>([^]*)<\/style>/.exec(html) ?? [];
  expect(html).toContain(`style-src 'sha256-${createHash('sha256').update(style).digest('base64')}'`);
  expect(html).toContain("default-src 'none'");
  expect(html).not.toMatch(/<script|\sstyle=|\son\w+=|https?:|url\(/);
  expect(sweepReport(outcome, facts)).toBe(html);
});

it('prints in light colours with the shades of its panels, and has a name for every table', () => {
  const html = sweepReport(outcome, facts);
  expect(html.match(/@media \(prefers-color-scheme/g)).toBeNull(); // only on screens
  expect(html).toContain('print-color-adjust: exact');
  expect(html).toContain('aria-label="Certificates of numbers &lt;&amp;&gt; on m"');
  const lines = html.match(/class="s\d"><title>/g) ?? [];
  expect(new Set(lines).size).toBe(2);
  expect(html).toContain('.s1 .line, .legend .s1 { stroke-dasharray');
});

it('says shares as shares', () => {
  const share = '25%' as const,
    some = cut.map((one) => ({ ...one, budget: share })),
    html = sweepReport(
      {
        format: 1,
        rows: [row('full', undefined, full), { ...row('cut', 16, some), budget: share }],
        samples: { m: [...full, ...some] },
      },
      facts,
    );
  expect(html).toContain('cut</strong> at 25% answers 25.0 %');
});

it('finds the tokens of an answer in the prompt, and maps what heads kept of it', () => {
  const offsets = Array.from({ length: 32 }, (_, i) => [3 * i, 3 * i + 3] as const),
    context = `${'-'.repeat(45)}1234${'-'.repeat(47)}`;
  expect(answerTokens({ context, question: '?', answers: ['1234'] }, offsets)).toEqual([15, 16]);
  expect(answerTokens({ context, question: 'is it 1234?', answers: ['1234'] }, offsets)).toEqual([]);
  const said = `${'-'.repeat(30)}5${'-'.repeat(29)} 15 know 0.5${'-'.repeat(24)}`;
  expect(answerTokens({ context: said, question: 'of 15?', answers: ['no', '5'] }, offsets)).toEqual([10]);
  const found = keptOf([[[0, 1, 15, 16], [15]]], 32, [15, 16]);
  expect(found.depth).toBeCloseTo(15 / 31);
  expect(found.answerKept).toBe(0.5);
  const map = Buffer.from(found.map ?? '', 'base64');
  expect(Array.from(map.keys()).filter((i) => map[i] === 255)).toEqual([0, 1, 15, 16, 32 + 15]);
});
