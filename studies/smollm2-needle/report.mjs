// npm run -s study -- smollm2-needle/report results.json RESULTS.jsonl...
// What run.mjs wrote, as JSON in this folder and as a table on stdout.
import { readFileSync, writeFileSync } from 'node:fs';
import { wilson } from '@kv/tasks';

const prompts = process.argv
  .slice(3)
  .flatMap((file) =>
    readFileSync(file, 'utf8')
      .split('\n')
      .filter(Boolean)
      .map((line) => JSON.parse(line)),
  )
  .sort((a, b) => b.form.localeCompare(a.form) || a.i - b.i);

const rows = new Map();
for (const { form, i, ways } of prompts) {
  const answered = ways[0].hit;
  for (const [way, { name, policy = 'full', budget = 'all', hit, same, kept, answer }] of ways.entries()) {
    const key = JSON.stringify([form, name, budget]),
      row = rows.get(key) ?? {
        form,
        name,
        policy,
        budget,
        n: 0,
        hits: 0,
        answered: 0,
        answeredHits: 0,
        kept: 0,
        missed: [],
        differs: [],
      };
    row.n++;
    row.hits += hit;
    row.answered += answered;
    row.answeredHits += answered && hit;
    row.kept += kept;
    if (!hit) row.missed.push(i);
    if (
      way > 0 &&
      same &&
      answer !== undefined &&
      !answer.includes(prompts.find((p) => p.form === form && p.i === i).value)
    )
      row.differs.push(i);
    rows.set(key, row);
  }
}
const table = [...rows.values()].map(({ kept, ...row }) => ({
  ...row,
  kept: Number((kept / row.n).toFixed(3)),
  interval: wilson(row.hits, row.n),
  answeredInterval: wilson(row.answeredHits, row.answered),
}));
writeFileSync(
  new URL(process.argv[2], import.meta.url),
  `${JSON.stringify({ rows: table, prompts: prompts.map(({ form, i, value, ways }) => ({ form, i, value, hits: ways.map(({ hit }) => Number(hit)).join('') })) }, undefined, 1)}\n`,
);

const share = (k, n, { low, high }) =>
  `${((100 * k) / n).toFixed(1)} % (${(100 * low).toFixed(1)}-${(100 * high).toFixed(1)})`;
console.log(
  '| prompts | policy | kept slots | hits | share (Wilson 95 %) | of those that the full cache answers | heads with the whole value |\n| --- | --- | --- | --- | --- | --- | --- |',
);
for (const r of table)
  console.log(
    `| ${r.form} | ${r.name} | ${r.budget} | ${r.hits}/${r.n} | ${share(r.hits, r.n, r.interval)} | ${share(r.answeredHits, r.answered, r.answeredInterval)} | ${(100 * r.kept).toFixed(0)} % |`,
  );
const differing = table.filter(({ differs }) => differs.length > 0);
console.log(
  `\nBlock and steps disagree on: ${differing.length === 0 ? 'no prompt' : JSON.stringify(differing.map(({ name, budget, differs }) => [name, budget, differs]))}`,
);
