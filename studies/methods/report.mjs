// npm run -s study -- methods/report [RESULTS.jsonl]
// What run.mjs measured: results.json of this folder from a file of results, and methods.md from that.
import { readFileSync, writeFileSync } from 'node:fs';
import { pairedDifference, wilson } from '@kv/tasks';
import { median } from '../../bench/lib/spread.mjs';
import { linesOf } from '../lib/prompts-by-workers.mjs';
import { mean, percent, tableLine } from '../lib/tables.mjs';
import { BEDS, METHODS } from './beds.mjs';

const [file] = process.argv.slice(2),
  stored = new URL('results.json', import.meta.url),
  names = Object.keys(BEDS),
  policies = Object.values(METHODS).flat();

/** The right answers of a bed, a digit a prompt in their order, and what each method took of the full cache's. */
function measured(lines, bed) {
  const of = lines.filter((line) => line.bed === bed).sort((a, b) => a.i - b.i),
    digits = (list) => list.map(({ right }) => Number(right)).join('');
  for (const { i, refused } of of)
    if (refused.length > 0) throw new Error(`${bed} ${i}: expected all methods to run, got ${refused[0][1]}`);
  return {
    ...{ bed, model: of[0].model, form: of[0].form, full: digits(of.map(({ reference }) => reference)) },
    methods: of[0].candidates.map(([policy], which) => {
      const outcomes = of.map((line) => line.outcomes.find(([one]) => one === which)[1]),
        ratio = (what) => outcomes.map((outcome, i) => outcome[what] / of[i].reference[what]);
      return {
        ...{ policy, right: digits(outcomes) },
        kl: Number(mean(outcomes, 'kl').toPrecision(3)),
        bytes: Number(mean(ratio('bytes')).toFixed(3)),
        time: Number(median(ratio('ms')).toFixed(2)),
      };
    }),
  };
}

if (file) {
  const lines = linesOf(file),
    // the prompts that every bed has
    most = Math.min(...names.map((bed) => lines.filter((line) => line.bed === bed).length));
  if (most === 0) throw new Error(`expected results of prompts of ${names.join(', ')} in ${file}, got none of some`);
  const beds = names.map((bed) =>
    measured(
      lines.filter(({ i }) => i < most),
      bed,
    ),
  );
  writeFileSync(stored, `${JSON.stringify(beds, null, 1)}\n`);
}

const beds = JSON.parse(readFileSync(stored, 'utf8')),
  n = beds[0].full.length,
  of = (bed, policy) => beds.find((one) => one.bed === bed).methods.find((one) => one.policy === policy),
  count = (digits) => digits.replaceAll('0', '').length,
  share = (digits) => {
    const { low, high } = wilson(count(digits), digits.length);
    return `${percent(count(digits) / digits.length)} (${percent(low)}-${percent(high)})`;
  };

/** The points that the second loses against the first, with an interval over texts; `contrasts` share its level. */
function lost(bed, first, second, contrasts) {
  const { together = 1 } = BEDS[bed],
    texts = [];
  for (let i = 0; i < n; i += together)
    texts.push(
      Array.from({ length: Math.min(together, n - i) }, (_, k) => Number(first[i + k]) - Number(second[i + k])),
    );
  const { difference, low, high } = pairedDifference(texts, { level: 1 - 0.05 / contrasts, within: [-1, 1] });
  return { difference: 100 * difference, low: 100 * low, high: 100 * high };
}

const later = ['after', 'log', 'paraphrased', 'questions'],
  snapkv = 'snapkv(window=16,kernel=17,pooling=max)',
  below = (points) => ({
    text: `less than ${points}`,
    within: (_, high) => high < points,
    outside: (low) => low > points,
  }),
  above = (points) => ({
    text: `more than ${points}`,
    within: (low) => low > points,
    outside: (_, high) => high < points,
  }),
  near = (points) => ({
    text: `less than ${points} either way`,
    within: (low, high) => low > -points && high < points,
    outside: (low, high) => low > points || high < -points,
  }),
  each = (list, beds, bound) => beds.flatMap((bed) => list.map((policy) => ({ bed, policy, bound })));
/** The hypotheses of plan.md: what a method may lose against the full cache, or against another method. */
const HYPOTHESES = [
  each(['kvzipModelWide'], names, below(10)),
  [
    ...each(['taFast', 'attendedSentences'], ['inside'], below(5)),
    ...each(['taFast', 'outstandingSentences'], ['after'], below(5)),
    ...each(['taFast'], ['log'], below(5)),
  ],
  [
    ...each(['taFast', 'attendedSentences'], ['paraphrased'], above(50)),
    ...each(['outstandingSentences'], ['paraphrased'], below(10)),
  ],
  each(
    policies.filter((policy) => policy !== 'kvzipModelWide'),
    ['questions'],
    above(10),
  ),
  each([snapkv, `${snapkv} | caote | topK`, 'adakv', 'chunkkv', 'tova', ...METHODS['of engines']], later, above(40)),
  each(['streamingRerotated'], names, near(5)).map((contrast) => ({ ...contrast, against: 'streaming' })),
].map((contrasts) =>
  contrasts.map(({ bed, policy, bound, against }) => {
    const { full } = beds.find((one) => one.bed === bed),
      found = lost(bed, against ? of(bed, against).right : full, of(bed, policy).right, contrasts.length),
      { low, high } = found;
    return {
      ...{ bed, policy, bound: bound.text, ...found },
      verdict: bound.within(low, high) ? 'within' : bound.outside(low, high) ? 'outside' : 'undecided',
    };
  }),
);
const verdictOf = (contrasts) =>
  contrasts.some(({ verdict }) => verdict === 'outside')
    ? 'does not hold'
    : contrasts.every(({ verdict }) => verdict === 'within')
      ? 'holds'
      : 'undecided';

/** Methods of a bed that are not told from its best: the interval of the paired difference holds 0. */
function best(bed) {
  const { methods } = beds.find((one) => one.bed === bed),
    ordered = [...methods].sort((a, b) => count(b.right) - count(a.right) || a.kl - b.kl);
  return ordered
    .filter(({ right }) => lost(bed, ordered[0].right, right, policies.length - 1).low <= 0)
    .map(({ policy, right }) => `\`${policy}\` ${percent(count(right) / n, 1)}`)
    .join(', ');
}

const rangeOf = (list) => [...new Set([Math.min(...list), Math.max(...list)])].map((x) => x.toFixed(2)).join('-'),
  digits = (x) => (x > 0 && x < 0.05 ? '-0' : x.toFixed(1)),
  points = ({ difference, low, high }) => `${digits(difference)} [${digits(low)}, ${digits(high)}]`,
  rows = Object.entries(METHODS).flatMap(([kind, list]) =>
    list.map((policy) => {
      const found = names.map((bed) => of(bed, policy));
      return tableLine([
        `\`${policy}\``,
        kind,
        ...found.map(({ right }) => share(right)),
        rangeOf(found.map(({ time }) => time)),
      ]);
    }),
  );

writeFileSync(
  new URL('methods.md', import.meta.url),
  `# Right answers by method and bed

\`npm run -s study -- methods/report\` makes this page. Right answers in percent of ${n} prompts with Wilson's 95 % interval; the beds, and what came out, are in the [README](README.md). ${n >= 200 ? 'A verdict: none of these prompts chose a method or a setting.' : 'A screening.'}

| policy | | ${names.map((bed) => `\`${bed}\``).join(' | ')} | time |
| --- | --- | ${names.map(() => '---').join(' | ')} | --- |
${tableLine(['full cache', '', ...beds.map(({ full }) => share(full)), '1'])}
${rows.join('\n')}

Time: milliseconds of reading the prompt, evicting, and reading question and answer, as a multiple of the full cache's; the median of a bed, least and most of the beds, with two prompts at a time on two cores. Bytes kept, of the full cache's: ${names.map((bed) => `${rangeOf(beds.find((one) => one.bed === bed).methods.map(({ bytes }) => bytes))} on \`${bed}\``).join(', ')}.

## Not told from the best of its bed

Methods whose paired difference from the best has an interval that holds 0 (95 %, Bonferroni over ${policies.length - 1}).

| bed | full cache | methods |
| --- | --- | --- |
${beds.map(({ bed, full }) => tableLine([`\`${bed}\``, percent(count(full) / n, 1), best(bed)])).join('\n')}

## Divergence

Mean KL of the next token along the full cache's answer, in nats.

| policy | ${names.map((bed) => `\`${bed}\``).join(' | ')} |
| --- | ${names.map(() => '---').join(' | ')} |
${policies.map((policy) => tableLine([`\`${policy}\``, ...names.map((bed) => of(bed, policy).kl.toPrecision(2))])).join('\n')}

## Hypotheses

Points of right answers that are lost against the full cache (6: of \`streamingRerotated\` against \`streaming\`).

${HYPOTHESES.map(
  (
    contrasts,
    h,
  ) => `**${h + 1}: ${verdictOf(contrasts)}** (${contrasts.filter(({ verdict }) => verdict === 'within').length} of ${contrasts.length} within, ${contrasts.filter(({ verdict }) => verdict === 'outside').length} outside)

| bed | policy | lost | bound | |
| --- | --- | --- | --- | --- |
${contrasts.map((one) => tableLine([`\`${one.bed}\``, `\`${one.policy}\``, points(one), one.bound, one.verdict])).join('\n')}`,
).join('\n\n')}
`,
);
