// npm run -s study -- refit/report results.json RESULTS.jsonl
// What run.mjs wrote: every cell in a file of this folder, and the tables of README.md on stdout.
import { writeFileSync } from 'node:fs';
import { pairedTest, wilson } from '@kv/tasks';
import { linesOf } from '../lib/prompts-by-workers.mjs';
import { mean, percent, print } from '../lib/tables.mjs';
import { AT, BESIDE, cells, equalTo, HOOKS, MORE, nameOf, SELECTIONS, SHARES } from './cells.mjs';
import { DIRECT, NEEDLE } from './prompts.mjs';

const [out, file] = process.argv.slice(2),
  documents = linesOf(file).sort((a, b) => a.i - b.i),
  planned = ['full', ...cells().map(({ name }) => name)];
if (documents.length === 0) throw new Error(`expected the rows of run.mjs in ${file}, got none`);

/** The answers of each cell, by document; a cell that a document lacks or that was refused has none there. */
const rows = new Map(
    planned.map((name) => [name, documents.map((of) => of.cells.find((one) => one.name === name && !one.refused))]),
  ),
  refused = (name) => documents.flatMap((of) => of.cells.flatMap((one) => (one.name === name && one.refused) || []));

/** What a bed counts of a document, larger is better, and by how much less may still be called the same. */
const BEDS = {
  needle: { of: ({ answers }) => [Number(answers[NEEDLE])], margin: 0.05 },
  four: { of: ({ answers }) => DIRECT.map((kind) => Number(answers[kind])), margin: 0.05 },
  paraphrase: { of: ({ answers }) => [Number(answers.paraphrase)], margin: 0.05 },
  prose: { of: ({ kl }) => [-kl], margin: 0.02 },
};
const scores = (name, bed) => rows.get(name).map((cell) => cell && BEDS[bed].of(cell)),
  has = (name) => rows.get(name).some(Boolean),
  average = (name, bed) => mean(scores(name, bed).filter(Boolean).flat());
// what the full cache cannot answer shows nothing of a policy
const READABLE = 0.8,
  asked = Object.keys(BEDS).filter((bed) => bed !== 'paraphrase' || average('full', bed) >= READABLE);

const RESAMPLES = 40_000,
  GAIN = { needle: 'points', four: 'points', paraphrase: 'points', prose: 'nats' },
  shown = (bed, x) => (bed === 'prose' ? x.toFixed(3) : percent(x, 1)),
  /** What a cell reaches: a share in percent, or KL. */
  reached = (name, bed) => shown(bed, bed === 'prose' ? -average(name, bed) : average(name, bed));
/** Compares cell a with cell b on the documents that have both; the interval and p are corrected for `looks`. */
function compared(a, b, bed, looks) {
  const [x, y] = [scores(a, bed), scores(b, bed)],
    pairs = x.flatMap((of, d) => (of && y[d] ? [of.map((value, k) => value - y[d][k])] : []));
  if (pairs.length === 0) return undefined;
  const found = pairedTest(pairs, { level: 1 - 0.05 / looks, resamples: RESAMPLES });
  return { ...found, n: pairs.length, p: Math.min(1, looks * found.p) };
}
const interval = (bed, { difference, low, high }) =>
    `${shown(bed, difference)} (${shown(bed, low)} to ${shown(bed, high)})`,
  pValue = ({ p }) => (p < 0.001 ? '< .001' : p.toFixed(3));

/** Whether a cell at a small share does what a large one does: `got` is the first less the second. */
function verdict(bed, needed, got) {
  const within = got.low > -BEDS[bed].margin;
  if (got.high < 0 && !within) return 'no';
  if (needed.low <= 0) return 'nothing to make up';
  return within ? 'yes' : 'not shown';
}

// 1: what was measured
const n = documents.length,
  full = rows.get('full').find(Boolean).bytes,
  missing = planned.filter((name) => !has(name));
console.log(
  `n = ${n} documents of the set ${documents[0].set}, ${documents[0].model}${n < 200 ? ': a screening' : ''}; the full cache takes ${full} bytes.\n`,
);
if (missing.length > 0) console.log(`Left out, ${missing.length} of ${planned.length} cells: ${missing.join('; ')}.\n`);
for (const name of planned)
  if (refused(name).length > 0)
    console.log(`${name}: refused on ${refused(name).length} documents: ${refused(name)[0]}\n`);
const answered = (list) => {
  const hits = list.filter(Boolean).length,
    { low, high } = wilson(hits, list.length);
  return `${percent(hits / list.length, 1)} (${percent(low)}-${percent(high)})`;
};
print(
  [
    ...['cell', 'n', 'slots', 'bytes, %', 'needle, %', 'four, %', 'all four, %', 'paraphrase, %', 'KL', '-ln p'],
    ...['same token, %', 'needle held, %', 'event, ms of a core'],
  ],
  planned.filter(has).map((name) => {
    const all = rows.get(name).filter(Boolean),
      of = (bed) => scores(name, bed).filter(Boolean);
    return [
      ...[name, all.length, mean(all, 'slots').toFixed(0), percent(mean(all, 'bytes') / full, 1)],
      ...[answered(of('needle').flat()), percent(average(name, 'four'), 1)],
      ...[answered(of('four').map((four) => four.every(Boolean))), answered(of('paraphrase').flat())],
      ...[mean(all, 'kl').toFixed(4), mean(all, 'nll').toFixed(3), percent(mean(all, 'top'), 1)],
      percent(mean(all.map(({ held }) => held[NEEDLE])), 1),
      name === 'full' ? '' : mean(all, 'ms').toFixed(0),
    ];
  }),
);
if (!asked.includes('paraphrase'))
  console.log(
    `Paraphrased needles are not compared: the full cache answers ${percent(average('full', 'paraphrase'), 1)} %, less than ${100 * READABLE} %.\n`,
  );

// 2: 5 % with a hook against 15 % plain
/** Prints what hooks at `AT` percent do beside the plain selection at `MORE`; returns the verdicts of each hook. */
function sameAsMore(hooks) {
  const looks = (1 + hooks.length) * SELECTIONS.length * Object.keys(BEDS).length,
    verdicts = new Map(hooks.map((hook) => [hook, []])),
    lines = SELECTIONS.flatMap(({ name }) =>
      asked.flatMap((bed) =>
        hooks.flatMap((hook) => {
          const [few, one, more] = [nameOf(name, 'plain', AT), nameOf(name, hook, AT), nameOf(name, 'plain', MORE)],
            needed = compared(more, few, bed, looks),
            got = compared(one, more, bed, looks);
          if (!needed || !got) return [];
          const said = verdict(bed, needed, got),
            made = (average(one, bed) - average(few, bed)) / (average(more, bed) - average(few, bed));
          verdicts.get(hook).push({ name, said });
          return [
            [
              ...[name, hook, bed, got.n, ...[few, one, more].map((cell) => reached(cell, bed))],
              needed.low > 0 ? `${percent(made)} %` : '',
              ...[`${interval(bed, got)} ${GAIN[bed]}`, said],
            ],
          ];
        }),
      ),
    );
  if (lines.length === 0) return;
  print(
    [
      ...['selection', 'hook', 'bed', 'n', `plain ${AT} %`, `hook ${AT} %`, `plain ${MORE} %`, 'made up'],
      ...[`hook ${AT} % less plain ${MORE} %`, 'the same?'],
    ],
    lines,
  );
  for (const [hook, all] of verdicts) {
    const count = (said, of = all) => of.filter((one) => one.said === said).length,
      answers = SELECTIONS.map(({ name }) => {
        const of = all.filter((one) => one.name === name),
          open = of.length - count('nothing to make up', of);
        if (count('no', of) > 0) return `${name}: no`;
        return `${name}: ${open > 0 && count('yes', of) === open ? 'yes' : 'not shown'}`;
      });
    console.log(
      `**Does ${hook} at ${AT} % do what the same selection does at ${MORE} %?** ${answers.join('; ')}. Of ${all.length} rows yes ${count('yes')}, no ${count('no')}, not shown ${count('not shown')}, nothing to make up ${count('nothing to make up')}. Intervals corrected for ${looks} looks; above 0 the hook is better, for prose by less KL.\n`,
    );
  }
}
sameAsMore(['fit']);
sameAsMore(HOOKS.slice(2));

// 3: other contrasts, in pairs by document
/** Prints contrasts `[a, b]` on every bed; the correction counts all that are planned, run or not. */
function contrasts(title, pairs) {
  const looks = pairs.length * Object.keys(BEDS).length,
    lines = pairs.flatMap(([a, b]) =>
      asked.flatMap((bed) => {
        const found = compared(a, b, bed, looks);
        return found ? [[a, b, bed, found.n, `${interval(bed, found)} ${GAIN[bed]}`, pValue(found)]] : [];
      }),
    );
  if (lines.length === 0) return;
  console.log(`${title}; intervals and p corrected for ${looks} looks.\n`);
  print(['cell', 'against', 'bed', 'n', 'difference', 'p'], lines);
}
contrasts(
  'Hooks against the plain selection at the same share',
  SELECTIONS.flatMap(({ name }) =>
    SHARES.flatMap((share) => HOOKS.slice(1).map((hook) => [hook, 'plain'].map((of) => nameOf(name, of, share)))),
  ),
);
contrasts(
  `Hooks at ${AT} % against the plain selection in the bytes of moments at ${AT} %`,
  SELECTIONS.flatMap(({ name }) => HOOKS.slice(2).map((hook) => [nameOf(name, hook, AT), equalTo(name, AT)])),
);
contrasts(
  'A gate against KVzip and SnapKV',
  SHARES.flatMap((share) =>
    [BESIDE[1].name, SELECTIONS[0].name].map((other) =>
      [BESIDE[0].name, other].map((of) => nameOf(of, 'plain', share)),
    ),
  ),
);

/** A cell in few numbers, in the order that `fields` names. */
const KINDS = [...DIRECT, 'paraphrase'],
  fields = ['cell', ...KINDS, ...KINDS.map((kind) => `${kind} held`), 'slots', 'bytes', 'kl', 'nll', 'top', 'ms'],
  packed = ({ name, refused: why, answers, held, slots, bytes, kl, nll, top, ms }) =>
    why
      ? [name, why]
      : [
          ...[name, ...KINDS.map((kind) => Number(answers[kind])), ...KINDS.map((kind) => held[kind])],
          ...[slots, bytes, kl, nll, top, ms ?? 0],
        ];
writeFileSync(
  new URL(out, import.meta.url),
  `${JSON.stringify({ n, full, fields, documents: documents.map(({ cells: all, ...of }) => JSON.stringify({ ...of, cells: all.map(packed) })) }, undefined, 1)}\n`,
);
