// npm run -s study -- choose/methods [RESULTS.jsonl]
// Methods by beds at equal bytes, over what run.mjs measured: methods.json of this folder from a file of results, and
// methods.md from that.
import { readFileSync, writeFileSync } from 'node:fs';
import { wilson } from '@kv/tasks';
import { linesOf } from '../lib/prompts-by-workers.mjs';
import { mean, percent, tableLine } from '../lib/tables.mjs';
import { BEDS } from './beds.mjs';

const [file] = process.argv.slice(2),
  stored = new URL('methods.json', import.meta.url);

/** Means of every policy on a bed that was asked all of its prompts. */
function measured(lines) {
  return lines[0].candidates.flatMap(([policy], which) => {
    const outcomes = lines.flatMap((line) => line.outcomes.filter(([one]) => one === which).map(([, of]) => of));
    if (outcomes.length < lines.length) return [];
    return {
      policy,
      right: outcomes.reduce((sum, { right }) => sum + right, 0),
      kl: Number(mean(outcomes, 'kl').toPrecision(3)),
      bytes: Number(mean(outcomes.map(({ bytes }, i) => bytes / lines[i].reference.bytes)).toFixed(3)),
    };
  });
}

if (file) {
  const lines = linesOf(file),
    beds = Object.keys(BEDS).flatMap((bed) => {
      const of = lines.filter((line) => line.bed === bed).sort((a, b) => a.i - b.i);
      if (of.length === 0) return [];
      const full = of.reduce((sum, { reference }) => sum + reference.right, 0);
      return { bed, budget: BEDS[bed].budget, form: of[0].form, n: of.length, full, methods: measured(of) };
    });
  writeFileSync(stored, `${JSON.stringify(beds, null, 1)}\n`);
}

const beds = JSON.parse(readFileSync(stored, 'utf8')),
  share = (right, n) => {
    const { low, high } = wilson(right, n);
    return `${((100 * right) / n).toFixed(0)} (${percent(low)}-${percent(high)})`;
  },
  policies = [...new Set(beds.flatMap(({ methods }) => methods.map(({ policy }) => policy)))],
  of = ({ methods }, policy) => methods.find((one) => one.policy === policy),
  // the least share of what the full cache answers, over the beds that a policy was asked on
  worst = (policy) => Math.min(...beds.flatMap((bed) => (of(bed, policy) ? of(bed, policy).right / bed.full : []))),
  rows = policies
    .map((policy) => ({
      policy,
      worst: worst(policy),
      total: beds.reduce((sum, bed) => sum + (of(bed, policy)?.right ?? 0), 0),
    }))
    .sort((a, b) => b.total - a.total || b.worst - a.worst || (a.policy < b.policy ? -1 : 1)),
  cells = (policy) =>
    beds.flatMap((bed) => {
      const one = of(bed, policy);
      return one ? [share(one.right, bed.n), one.kl.toPrecision(2)] : ['-', '-'];
    }),
  best = (name) => {
    const bed = beds.find((one) => one.bed === name),
      most = Math.max(...bed.methods.map(({ right }) => right));
    return bed.methods
      .filter(({ right }) => right >= most - 1)
      .sort((a, b) => b.right - a.right || a.kl - b.kl)
      .slice(0, 6)
      .map(({ policy, right }) => `\`${policy}\` ${right}`)
      .join(', ');
  };

writeFileSync(
  new URL('methods.md', import.meta.url),
  `# Methods by beds, at equal bytes

\`npm run -s study -- choose/methods\` makes this page, a screening; [methods](../methods) asks nineteen of them 200 new prompts on six beds. Every method of the catalogue that evicts within its budget, as \`kv choose\` offers them, on ${beds.map(({ bed, n }) => `${n} prompts of \`${bed}\``).join(', ')}; each cell is right answers in percent with Wilson's 95 % interval, and the mean KL of the next token along the full cache's answer, in nats. One eviction after the prompt, to the same share of the full cache's bytes: ${beds.map(({ bed, budget }) => `${budget} on \`${bed}\``).join(', ')}; the cache is stored in ${beds[0].form}. SmolLM2-135M-Instruct reads the first three beds, the reasoner of this repository the last. Fewer than 200 prompts: a screening, in which two methods some 20 points apart may be equal.

- \`inside\`: a number of seven digits in 512 tokens of a novel, the question in the prompt.
- \`after\`: the same, the question after the eviction.
- \`log\`: a credential in an agent's log of twelve turns, asked after the eviction.
- \`chains\`: a problem whose solution of some twenty steps the model writes.

## Which for what

| need | right, of | within one prompt of the best |
| --- | --- | --- |
${beds.map(({ bed, n, full }) => tableLine([`\`${bed}\``, `full cache ${full} of ${n}`, best(bed)])).join('\n')}

## All

| policy | ${beds.map(({ bed }) => `${bed}, % | KL`).join(' | ')} |
| --- | ${beds.map(() => '--- | ---').join(' | ')} |
${tableLine(['full cache', ...beds.flatMap(({ full, n }) => [share(full, n), '0'])])}
${rows.map(({ policy }) => tableLine([`\`${policy}\``, ...cells(policy)])).join('\n')}

## What none of it shows

One model of 135 million parameters and one of 1.2 million; one wording of a needle, which most recent methods find; no text above some 1,000 tokens; one eviction, not a conversation. Methods run with the catalogue's defaults, which were chosen on other beds of this kind for some of them (TA-Fast, attendedSentences, outstandingSentences) and are their papers' for the others. Views, which evict nothing, and methods whose files are not here (gates, budget curves) are left out. What an event costs is in [bench/results](../../bench/results).
`,
);
