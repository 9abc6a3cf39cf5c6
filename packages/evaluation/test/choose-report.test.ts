import { execFileSync } from 'node:child_process';
import { runInNewContext } from 'node:vm';
import fc from 'fast-check';
import { expect, test } from 'vitest';
import type { Choice, ChoiceRow } from '../src/choose/choice.ts';
import { choiceReport } from '../src/choose/report/html.ts';
import { useLines } from '../src/choose/report/lines.ts';
import { frontierOf, lossPicture } from '../src/choose/report/picture.ts';
import { choiceSentences } from '../src/choose/report/sentence.ts';

const row = (policy: string, more: Partial<ChoiceRow> = {}): ChoiceRow => ({
  ...{ policy, budget: '25%', share: 0.25, bytes: 1024, cost: 0.1, prompts: 10, alive: true, ms: 50 },
  loss: { mean: 0, low: 0, high: 0.2, n: 10, clusters: 10 },
  ...more,
});
const choiceOf = (more: Partial<Choice>): Choice => ({
  ...{ model: 'm', engine: 'e', form: 'q8', seed: 0, goal: { budget: '25%' }, kind: 'same', level: 0.95 },
  prompts: { choosing: 10, confirming: 10, documents: 20, tokens: 1000, answers: false, question: 'after' },
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
test.each(POLICIES)('the lines give %s to a shell and to JavaScript as it is', async (policy) => {
  const name = "my model's.gguf",
    lines = useLines({ policy, budget: '25%', share: 0.25 }, name, 1000),
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

test('bytes are slots to engines that count no bytes, and what they cannot run is a reason', () => {
  const [, , transformers, llama] = useLines({ policy: 'streaming', budget: '64MiB', share: 0.25 }, 'm', 1000);
  expect([transformers?.line, llama?.line]).toEqual([
    "await withPolicy(loaded, { policy: 'streaming', budget: 250 })",
    "await retainTokens(sequence, { policy: policy('streaming'), budget: 250 })",
  ]);
  const [, , kept, none] = useLines({ policy: 'snapkv', budget: 512, share: 0.25 }, 'm', 1000);
  expect(kept?.line).toContain("policy: 'snapkv', budget: 512, source");
  expect(none).toMatchObject({ where: 'node-llama-cpp', why: expect.stringContaining('attention') });
});

const confirmed = { mean: 0.1, low: 0.003, high: 0.45, n: 10, clusters: 10 };

test('the answer says what to keep, what is lost on new texts, memory and time', () => {
  expect(choiceSentences(choiceOf({ rows: [row('knorm', { confirmed })] }))).toEqual([
    'Least is lost with knorm at 25%: 10.0 % of answers changed (95 % interval 0.3 to 45.0 %; 10 documents, a screening), on texts that had no say in the choice.',
    'The cache holds 1.0 KiB of 4.0 KiB (25 %) in q8; reading a text and its answer takes 0.50 times as long.',
  ]);
});

test('where all lose alike the picture is of the divergence', () => {
  const loss = { mean: 1, low: 0, high: 1, n: 4, clusters: 4 },
    rows = [row('knorm', { loss, kl: 0.2 }), row('tova', { loss, kl: 0.8 })];
  expect(lossPicture({ rows, full: { bytes: 4096, ms: 1 } }, { width: 80 })).toMatch(/^KL\n0\.80 \|[^#]*\n/);
});

test('without new texts it says that the interval flatters, and before the end that it is none', () => {
  const [first, ...others] = choiceSentences(choiceOf({ done: false, left: 3 }));
  expect(first).toMatch(/^So far least is lost with knorm at 25%: .* on the texts that chose it, which flatters it\.$/);
  expect(others.slice(1)).toEqual([
    'This is not the end: it was stopped early.',
    '3 candidates could not be asked in this time.',
  ]);
});

test('a loss that new texts do not confirm is told, and how many could', () => {
  const said = choiceSentences(choiceOf({ goal: { lose: 0.01 }, rows: [row('knorm', { confirmed })] }));
  expect(said[2]).toBe('That is more than 1.0 %, within which it kept on the texts that chose it.');
  expect(said[3]).toMatch(/^10 documents cannot show that less than 1\.0 % is lost/);
});

test('where nothing keeps the loss it says so, which came nearest, and what lost answers have in common', () => {
  const { chosen, ...none } = choiceOf({
    goal: { lose: 0.01 },
    nearest: 0,
    rows: [row('knorm', { confirmed: { ...confirmed, mean: 0.4 } })],
    failures: { lost: 4, dropped: 3, full: 2 },
    kind: 'answers',
    prompts: { choosing: 10, confirming: 10, documents: 20, tokens: 1000, answers: true, question: 'after' },
  });
  expect(chosen).toBe(0);
  const said = choiceSentences(none);
  expect(said[0]).toMatch(
    /^No candidate loses at most 1\.0 %, so nothing should be dropped\. Nearest is knorm at 25%: 40\.0 points/,
  );
  expect(said).toContain(
    "In 3 of 4 texts whose answer it lost, no head held all of the answer's tokens; elsewhere some head did, or the answer does not stand in the text.",
  );
  expect(said).toContain('The model fails on 2 of these texts with its full cache too.');
});

test('no difference, a model that fails, and nothing asked are told', () => {
  const three = [row('knorm', { confirmed }), row('tova', { confirmed }), row('keydiff', { confirmed })];
  expect(choiceSentences(choiceOf({ rows: three, tied: [1, 2] }))).toContain(
    'No difference was found between it and the 2 others that were compared on those texts.',
  );
  expect(choiceSentences(choiceOf({ rows: three, tied: [1] }))).toContain(
    'These texts cannot tell it from 1 other: tova at 25%.',
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
        { where: 'w', why: hostile },
      ],
      { command: hostile, versions: { [hostile]: hostile } },
    );
  expect(html.match(/<img|<script|https?:/g)).toBeNull();
  expect(html.match(/<\/style>/g)).toHaveLength(1);
  expect(html.match(/<circle class="(?:best|chosen)"/g)).toHaveLength(2);
});
