import { execFileSync } from 'node:child_process';
import { runInNewContext } from 'node:vm';
import { cutTurn, loadModel, renderedIds } from '@kv/models';
import fc from 'fast-check';
import { expect, test } from 'vitest';
import type { Choice, ChoiceRow } from '../src/choose/choice.ts';
import { choiceColumns, choiceLegend } from '../src/choose/report/columns.ts';
import { choiceReport } from '../src/choose/report/html.ts';
import { useLines } from '../src/choose/report/lines.ts';
import { documentsToTell, tiesWith } from '../src/choose/statistics/loss-interval.ts';
import { frontierOf, lossPicture, pictureLegend, shownIn } from '../src/choose/report/picture.ts';
import { choiceSentences } from '../src/choose/report/sentence.ts';

const row = (policy: string, more: Partial<ChoiceRow> = {}): ChoiceRow => ({
  ...{ policy, budget: '25%', share: 0.25, bytes: 1024, cost: 0.1, prompts: 10, alive: true, ms: 50 },
  loss: { mean: 0, low: 0, high: 0.2, n: 10, clusters: 10 },
  ...more,
});
const choiceOf = (more: Partial<Choice>): Choice => ({
  ...{ model: 'm', engine: 'e', form: 'q8', seed: 0, goal: { budget: '25%' }, kind: 'same', level: 0.95 },
  prompts: {
    choosing: 10,
    confirming: 10,
    documents: 20,
    tokens: 1000,
    answers: false,
    question: 'after',
    template: false,
  },
  full: { bytes: 4096, ms: 100 },
  rows: [row('knorm')],
  ...{ chosen: 0, tied: [], left: 0, evidence: 'screening', done: true, seconds: 1 },
  ...more,
});
const point = fc.record({
    bytes: fc.integer({ min: 1, max: 10 ** 9 }),
    loss: fc.double({ min: -1, max: 1, noNaN: true }),
  }),
  points = fc.array(point, { minLength: 1, maxLength: 60 });

test('the frontier is what nothing beats: as few bytes and less loss, or fewer bytes and as little', () =>
  fc.assert(
    fc.property(points, (all) => {
      const best = frontierOf(all),
        beaten = (p: (typeof all)[number]): boolean =>
          all.some((q) => q.bytes <= p.bytes && q.loss <= p.loss && (q.bytes < p.bytes || q.loss < p.loss));
      expect(best.some(beaten)).toBe(false);
      for (const p of all)
        if (!beaten(p)) expect(best.some((q) => q.bytes === p.bytes && q.loss === p.loss)).toBe(true);
    }),
  ));

test('a picture fits its width, shows the choice once, and its marks stand where the numbers say', () =>
  fc.assert(
    fc.property(points, fc.nat(), fc.integer({ min: 30, max: 160 }), (all, at, width) => {
      const asked = all.map(({ bytes, loss: mean }) =>
          row('knorm', { bytes, kl: mean, loss: { mean, low: -1, high: 1, n: 1, clusters: 1 } }),
        ),
        chosen = all[at % all.length],
        full = Math.max(...all.map(({ bytes }) => bytes)),
        choice = { rows: asked, full: { bytes: full, ms: 1 } },
        lines = lossPicture(choice, { chosen: asked[at % all.length], width }).split('\n'),
        rows = lines.slice(1, -2).map((line) => line.slice(line.indexOf('|') + 1));
      for (const line of lines) expect(line.length).toBeLessThanOrEqual(width);
      const marks = rows.flatMap((row, y) => [...row].flatMap((mark, x) => (mark === ' ' ? [] : [{ mark, x, y }]))),
        here = marks.filter(({ mark }) => mark === '#');
      expect(here).toHaveLength(1);
      expect(marks.length).toBeLessThanOrEqual(all.length + 1);
      const [{ x, y } = { x: -1, y: -1 }] = here,
        [least, most] = [Math.min, Math.max].map((of) => of(0, ...all.map(({ loss }) => loss)));
      if (chosen!.loss === least) expect(y).toBe(rows.length - 1);
      if (chosen!.loss === most && most! > 0.01) expect(y).toBe(0);
      if (chosen!.bytes === full) expect(x).toBe(Math.max(...marks.map((one) => one.x)));
    }),
  ));

const POLICIES = [
  'snapkv(window=16,kernel=17,pooling=max) | caote | topK',
  'taFast',
  'streaming(sinks=4)',
  'finch(question=8,delimiter="it\'s | a \\"$HOME\\" `x`")',
  'knorm | topK | levels(q8=0.25,q4=0.75)',
];
const usable = (of: Partial<ChoiceRow>, question: 'inside' | 'after'): Choice => {
  const choice = choiceOf({ rows: [row('knorm', of)] });
  return { ...choice, prompts: { ...choice.prompts, question } };
};
test.each(POLICIES)('the lines give %s to a shell and to JavaScript as it is', async (policy) => {
  const name = "my model's.gguf",
    lines = useLines(usable({ policy }, 'inside'), name),
    line = (where: string): string => lines.find((one) => one.where === where)?.line ?? '';
  const words = execFileSync('sh', ['-c', `kv() { printf '%s\\0' "$@"; }; ${line('kv serve')}`], { encoding: 'utf8' });
  expect(words.split('\0').slice(0, -1)).toEqual(['serve', '--model', name, '--policy', policy, '--budget', '25%']);
  const called: unknown[] = [];
  await runInNewContext(`(async () => { ${line('generate')} })()`, {
    prompt: 'p',
    loadModel: async (of: string) => of,
    generate: async (...args: unknown[]) => called.push(...args),
  });
  expect(called).toEqual([name, { prompt: 'p', policy, budget: '25%' }]);
});

test('bytes are given with the form that they were counted in', () => {
  const at = (
    budget: Choice['rows'][number]['budget'],
    question: 'inside' | 'after',
  ): readonly (string | undefined)[] =>
    useLines({ ...usable({ policy: 'streaming', budget }, question), form: 'q8' }, 'm').map(({ line }) => line);
  expect(at('64MiB', 'inside')[0]).toMatch(/ --budget 64MiB --cache q8$/);
  expect(at('64MiB', 'inside')[1]).toContain("loadModel('m', { cache: 'q8' })");
  expect(at('25% of f16', 'after')[0]).toMatch(/ --budget '25% of f16' --cache q8 --raw$/);
  expect(at('25% of f16', 'after')[2]).toContain("loadModel('m', { cache: 'q8' })");
  for (const line of [...at('25%', 'inside'), ...at(64, 'after')].filter((each) => each?.startsWith('kv ')))
    expect(line).not.toContain('cache');
});

test('bytes are slots to engines that count no bytes, and what they cannot run is a reason', () => {
  const [, , transformers, llama] = useLines(usable({ policy: 'streaming', budget: '64MiB' }, 'inside'), 'm');
  expect([transformers?.line, llama?.line]).toEqual([
    "await withPolicy(loaded, { policy: 'streaming', budget: 250 })",
    "await sequence.eraseContextTokenRanges(await retainTokens(sequence, { policy: policy('streaming'), budget: 250 }))",
  ]);
  const [, , kept, none] = useLines(usable({ policy: 'snapkv', budget: 512 }, 'inside'), 'm');
  expect(kept?.line).toContain("policy: 'snapkv', budget: 512, source");
  expect(none).toMatchObject({ where: 'node-llama-cpp', why: expect.stringContaining('attention') });
});

test('where some questions came later, the sentence says both, and the lines read the context first', () => {
  const both = choiceOf({ rows: [row('knorm')] });
  const choice: Choice = { ...both, prompts: { ...both.prompts, question: 'both' } };
  expect(choiceSentences(choice).join(' ')).toContain(
    'before the question where a prompt has one apart, else with any',
  );
  expect(useLines(choice, 'm').map(({ where }) => where)).toContain('kv run');
});

test('where questions came later, the lines read the context first', async () => {
  const lines = useLines(usable({ policy: 'snapkv' }, 'after'), 'm'),
    at = (where: string): (typeof lines)[number] | undefined => lines.find((one) => one.where === where);
  expect(at('kv run')?.line).toMatch(/ --document \S+ --question .* --policy snapkv --budget 25% --raw$/);
  const calls: unknown[] = [];
  class Sequence {
    prefill = (...args: unknown[]): unknown => calls.push('prefill', ...args);
    append = (...args: unknown[]): unknown => calls.push('append', ...args);
  }
  await runInNewContext(`(async () => { ${at('Sequence')?.line} })()`, {
    ...{ context: 'c', question: 'q', Sequence, decode: () => [] },
    loadModel: async () => ({ tokenizer: { encode: (text: string) => ({ ids: [text] }) } }),
  });
  expect(calls).toEqual(['prefill', ['c'], { policy: 'snapkv', budget: '25%' }, 'append', ['q']]);
  for (const where of ['kv serve', 'transformers.js']) expect(at(where)?.note).toContain('its question included');
  expect([at('kv run')?.note, at('Sequence')?.note]).toEqual([undefined, undefined]);
});

test('where prompts were turns of a chat, the lines read them as turns too', async () => {
  const choice = usable({ policy: 'taFast' }, 'after'),
    lines = useLines({ ...choice, prompts: { ...choice.prompts, template: true } }, 'm'),
    at = (where: string): (typeof lines)[number] | undefined => lines.find((one) => one.where === where),
    model = await loadModel('embedded', { chatTemplate: '<user>{{ messages[0].content }}<bot>' }),
    read: string[] = [];
  expect(at('kv run')?.line).toMatch(/ --document \S+ --question .* --policy taFast --budget 25%$/);
  class Sequence {
    prefill = (ids: readonly number[]): unknown => read.push(model.tokenizer.decode(ids));
    append = this.prefill;
  }
  await runInNewContext(`(async () => { ${at('Sequence')?.line} })()`, {
    ...{ context: 'A long text. ', question: 'Who?', Sequence, decode: () => [], cutTurn, renderedIds },
    loadModel: async () => model,
  });
  expect(read).toEqual(['<user>A long text. ', 'Who?<bot>']);
  model.destroy();
});

test('where the choice loses half or more there are no lines, and a sentence says so', () => {
  const lost = (mean: number): ChoiceRow => row('knorm', { confirmed: { ...confirmed, mean } }),
    all = choiceOf({ rows: [lost(0.5), lost(0.9)], kind: 'answers' });
  // another wording is no loss of use
  expect(useLines({ ...all, kind: 'same' }, 'm')).not.toEqual([]);
  expect(choiceSentences({ ...all, kind: 'same' }).join(' ')).not.toContain('half or more');
  expect(useLines(all, 'm')).toEqual([]);
  expect(choiceSentences(all)[1]).toMatch(/^In this memory every candidate that was asked loses half or more/);
  const one = choiceOf({ rows: [lost(0.5), lost(0.4)], kind: 'answers' });
  expect(useLines(one, 'm')).toEqual([]);
  expect(choiceSentences(one)[1]).toMatch(/^It loses half or more/);
  const { chosen: _, ...none } = choiceOf({ rows: [lost(0.4)], nearest: 0 });
  expect(useLines(none, 'm')).toEqual([]);
  expect(useLines(choiceOf({ rows: [lost(0.49)] }), 'm')).not.toEqual([]);
});

const confirmed = { mean: 0.1, low: 0.003, high: 0.45, n: 10, clusters: 10 };

test('the answer says what to keep, what is lost on new texts, memory and time', () => {
  expect(choiceSentences(choiceOf({ rows: [row('knorm', { confirmed })] }))).toEqual([
    'The best policy is knorm with 25 % of the slots: 10.0 % of answers changed (95 % interval 0.3 to 45.0 %; 10 documents, a screening), on texts that took no part in the choice.',
    'Once slots are dropped, the cache holds 1.0 KiB of 4.0 KiB (25 %) in q8; until then it may hold all that was read; reading a text and its answer takes 0.50 times as long.',
    'Slots are dropped once the text has been read, before the question about it is asked.',
    expect.stringContaining('counts as changed, right or not'),
  ]);
});

test.each([
  ['12.5%', 'with 12.5 % of the slots'],
  ['25% of q8', 'with 25 % of the memory of q8'],
  [512, 'with 512 slots per layer and KV head'],
  ['64MiB', 'in 64MiB'],
] as const)('a budget of %s is said in words', (budget, said) => {
  const choice = choiceOf({ goal: { lose: 0.5 }, rows: [row('knorm', { budget, confirmed })] });
  expect(choiceSentences(choice)[0]).toContain(`Use the policy knorm ${said}: 10.0 %`);
});

test('the picture has the numbers of the table, and says of which texts they are', () => {
  const rows = [row('knorm', { confirmed }), row('tova', { loss: { ...confirmed, mean: 0.3 } })],
    choice = choiceOf({ rows }),
    column = choiceColumns(choice).find(([title]) => title === 'changed')!;
  expect(shownIn(choice).points.map(({ loss }) => (100 * loss).toFixed(1))).toEqual(rows.map(column[1]));
  expect(pictureLegend(choice)).toContain('1 of the 2 candidates are shown as measured on texts that took no part');
  expect(pictureLegend(choiceOf({ rows: rows.slice(0, 1) }))).toContain('Measured on texts that took no part');
  expect(pictureLegend(choiceOf({ rows: rows.slice(1) }))).toContain('Measured on the texts that chose');
});

test('the legend explains the columns that the table has, and no other', () => {
  const choice = choiceOf({ rows: [row('knorm', { confirmed, kl: 0.1 }), row('tova', { confirmed })] }),
    titles = choiceColumns(choice).map(([title]) => title);
  expect(titles).not.toContain('cache');
  expect(choiceLegend(choice).match(/(?<=^|\. )\w+(?=:)/g)).toEqual(
    titles.filter((title) => title !== 'policy' && title !== 'budget'),
  );
});

test('where all lose alike the picture is of the divergence, and a sentence says that it decided', () => {
  const loss = { mean: 1, low: 0, high: 1, n: 4, clusters: 4 },
    rows = [row('knorm', { loss, kl: 0.2 }), row('tova', { loss, kl: 0.8 })];
  expect(lossPicture({ rows, full: { bytes: 4096, ms: 1 } }, { width: 80 })).toMatch(/^KL\n0\.80 \|[^#]*\n/);
  const said = 'All candidates lost alike on the texts that chose: the divergence of the next token (KL) decided.';
  expect(choiceSentences(choiceOf({ rows }))).toContain(said);
  expect(choiceSentences(choiceOf({ rows, goal: { lose: 1 } }))).not.toContain(said);
});

test('where some lose alike to within one text a sentence says so', () => {
  const of = (policy: string, mean: number) =>
      row(policy, { loss: { mean, low: 0, high: 1, n: 4, clusters: 4 }, kl: mean }),
    said = (...means: number[]): string =>
      choiceSentences(choiceOf({ rows: means.map((mean, i) => of(`p${i}`, mean)) })).join(' ');
  expect(said(0.25, 0, 0.5)).toContain(
    '2 candidates lost alike on the texts that chose, to within one text: the divergence of the next token (KL) decided between them.',
  );
  expect(said(0, 0.5, 0.75)).not.toContain('lost alike');
});

test('before the end it says how many were asked, and that texts that chose show too little loss', () => {
  const { loss, ...unasked } = row('tova');
  expect(loss).toBeDefined();
  const [first] = choiceSentences(choiceOf({ left: 1, rows: [row('knorm'), unasked] }));
  expect(first).toMatch(
    /^So far, with 1 of 2 candidates asked, the best policy is knorm with 25 % of the slots: .*, measured on the texts that chose it; expect to lose more on others\.$/,
  );
});

test('a gain is told as one', () => {
  const gain = { ...confirmed, mean: -0.25, low: -0.5 },
    choice = choiceOf({ kind: 'answers', rows: [row('knorm', { confirmed: gain })] });
  expect(choiceSentences(choice)[0]).toMatch(
    /^The best policy is knorm with 25 % of the slots: 25\.0 points better than the full cache \(/,
  );
  expect(choiceLegend(choice)).toContain('below 0 the policy has more');
});

test('a loss that new texts do not confirm is told, and how many could', () => {
  const said = choiceSentences(choiceOf({ goal: { lose: 0.01 }, rows: [row('knorm', { confirmed })] }));
  expect(said[3]).toBe('That is more than 1.0 %; on the texts that chose it, it lost no more than that.');
  expect(said[4]).toMatch(/^10 documents cannot show a loss below 1\.0 %/);
});

test('where nothing keeps the loss it says so, which came nearest, and what lost answers have in common', () => {
  const { chosen, ...none } = choiceOf({
    goal: { lose: 0.01 },
    nearest: 0,
    rows: [row('knorm', { confirmed: { ...confirmed, mean: 0.4 } })],
    failures: { lost: 4, dropped: 3, full: 2 },
    kind: 'answers',
    prompts: {
      choosing: 10,
      confirming: 10,
      documents: 20,
      tokens: 1000,
      answers: true,
      question: 'after',
      template: false,
    },
  });
  expect(chosen).toBe(0);
  const said = choiceSentences(none);
  expect(said[0]).toMatch(
    /^No candidate loses at most 1\.0 %, so nothing should be dropped\. Nearest is knorm with 25 % of the slots: 40\.0 points/,
  );
  expect(said).toContain(
    "It lost the answer of 4 texts: in 3 of these no layer and KV head still held all of the answer's tokens.",
  );
  const nothing = { ...none, failures: { lost: 4, dropped: 0, full: 0 } };
  expect(choiceSentences(nothing).join(' ')).not.toContain("answer's tokens");
  expect(said).toContain('On 2 of the 10 texts that confirm, the model is wrong with its full cache too.');
});

test('no difference, a model that fails, and nothing asked are told', () => {
  const three = [row('knorm', { confirmed }), row('tova', { confirmed }), row('keydiff', { confirmed })];
  expect(choiceSentences(choiceOf({ rows: three, tied: [1, 2] }))).toContain(
    'No difference was found between it and the 2 others that were compared on those texts.',
  );
  expect(choiceSentences(choiceOf({ rows: three, tied: [1] }))).toContain(
    'These texts cannot tell it from 1 other: tova with 25 % of the slots.',
  );
  const few = { ...confirmed, n: 3, clusters: 3 };
  expect(choiceSentences(choiceOf({ rows: three.map((one) => ({ ...one, confirmed: few })), tied: [1, 2] }))).toContain(
    `3 texts that took no part cannot tell it from 2 others, however much these lose: it takes ${documentsToTell(2)} at least.`,
  );
  const failing = choiceOf({ full: { bytes: 1, ms: 1, right: 0 } });
  expect(choiceSentences({ ...failing, prompts: { ...failing.prompts, answers: true } })).toContain(
    'With its full cache the model gives none of the right answers, so its own answers were the measure.',
  );
  const { chosen: _, ...nothing } = choiceOf({ rows: [], done: false });
  expect(choiceSentences(nothing)[0]).toBe('No candidate was asked, so nothing is known yet.');
});

test('a report has no script, no address, and none of its names as markup', () => {
  const hostile = `<img src=x onerror=alert(1)>"'&</style><script>`,
    html = choiceReport(
      choiceOf({ model: hostile, engine: hostile, rows: [row('knorm')] }),
      [
        { where: hostile, line: hostile },
        { where: 'w', line: 'l', note: hostile },
        { where: 'w', why: hostile },
      ],
      { command: hostile, goesOn: hostile, versions: { [hostile]: hostile } },
    );
  expect(html.match(/<img|<script|https?:/g)).toBeNull();
  expect(html.match(/<\/style>/g)).toHaveLength(1);
  expect(html.match(/<circle class="(?:best|chosen)"/g)).toHaveLength(2);
});

test('as many documents as are said to tell candidates apart do, and one fewer does not', () => {
  for (const others of [1, 2, 7, 20]) {
    const documents = documentsToTell(others),
      ties = (n: number): number => {
        const row = (loss: number): number[] => Array.from({ length: n }, () => loss);
        return tiesWith([row(0), ...Array.from({ length: others }, () => row(1))], [...row(0).keys()], 0, {
          kind: 'answers',
        }).length;
      };
    expect([ties(documents - 1), ties(documents)]).toEqual([others, 0]);
  }
});
