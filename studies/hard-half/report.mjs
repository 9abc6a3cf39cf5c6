// npm run -s study -- hard-half/report results.json RESULTS.jsonl...
// What run.mjs wrote, prompt by prompt in this folder, and as a table on stdout. A row counts each prompt once.
import { writeFileSync } from 'node:fs';
import { wilson } from '@kv/tasks';
import { linesOf } from '../lib/prompts-by-workers.mjs';

const prompts = process.argv
  .slice(3)
  .flatMap(linesOf)
  .sort((a, b) => a.tokens - b.tokens || b.form.localeCompare(a.form) || a.i - b.i || a.stage - b.stage);

const rows = new Map();
const seen = new Set();
for (const { form, i, tokens, prefill, ways } of prompts) {
  const [{ hit: answered }] = ways;
  for (const { name, budget = 'all', hit, held = 1, event = 0, slots } of ways)
    for (const forms of [form, 'both']) {
      const key = JSON.stringify([tokens, forms, name, budget]),
        id = JSON.stringify([key, form, i]);
      if (seen.has(id)) continue; // the full cache is in every stage
      seen.add(id);
      const row = rows.get(key) ?? {
        ...{ tokens, forms, name, budget, n: 0, hits: 0, answered: 0, answeredHits: 0, lost: 0, held: 0, slots: 0 },
        shares: [],
        missed: [],
      };
      row.n++;
      row.hits += hit;
      row.answered += answered;
      row.answeredHits += answered && hit;
      row.lost += !hit && held === 0;
      row.held += held;
      row.slots += slots ?? 0;
      row.shares.push(event / prefill);
      if (!hit) row.missed.push(`${form}/${i}`);
      rows.set(key, row);
    }
}
const median = (xs) => xs.toSorted((a, b) => a - b)[Math.floor(xs.length / 2)],
  order = ['full', 'outstandingSentences', 'compactor', 'kvzip'],
  place = ({ name }) => order.indexOf(name.split('(')[0]),
  table = [...rows.values()]
    .map(({ shares, held, slots, ...row }) => ({
      ...row,
      held: Number((held / row.n).toFixed(3)),
      slots: Math.round(slots / row.n),
      event: Number(median(shares).toFixed(3)),
      interval: wilson(row.hits, row.n),
    }))
    .sort((a, b) => a.tokens - b.tokens || a.forms.localeCompare(b.forms) || place(a) - place(b));
writeFileSync(
  new URL(process.argv[2], import.meta.url),
  `${JSON.stringify({ rows: table, prompts: prompts.map(({ ways, ...prompt }) => JSON.stringify({ ...prompt, ways })) }, undefined, 1)}\n`,
);

const share = (k, n) => (n === 0 ? '' : `${((100 * k) / n).toFixed(1)} %`);
console.log(
  '| tokens | prompts | policy | kept | right | share (Wilson 95 %) | of those that the full cache answers | heads that hold all of the value | misses whose value no head holds | event / prefill |\n| --- | --- | --- | --- | --- | --- | --- | --- | --- | --- |',
);
for (const { tokens, forms, name, budget, hits, n, interval, answered, answeredHits, held, lost, event } of table)
  console.log(
    `| ${tokens} | ${forms} | \`${name}\` | ${budget} | ${hits}/${n} | ${share(hits, n)} (${(100 * interval.low).toFixed(1)}-${(100 * interval.high).toFixed(1)}) | ${share(answeredHits, answered)} of ${answered} | ${(100 * held).toFixed(0)} % | ${lost} of ${n - hits} | ${name === 'full' ? '' : event} |`,
  );
