// npm run -s study -- choose/rows pack RESULTS.jsonl     packs the rows of run.mjs into rows-2.json of this folder
// npm run -s study -- choose/rows > RESULTS.jsonl        gives them back, for run.mjs to go on with
// Numbers that are not whole have four digits; the candidates of a bed are written once.
import { readFileSync, writeFileSync } from 'node:fs';
import { linesOf } from '../lib/prompts-by-workers.mjs';

const file = new URL('rows-2.json', import.meta.url),
  fields = ['kl', 'same', 'slots', 'bytes', 'ms', 'right', 'held'],
  short = (x) => (typeof x === 'number' && !Number.isInteger(x) ? Number(x.toPrecision(4)) : x),
  [order, results] = process.argv.slice(2);

if (order === 'pack') {
  const lines = linesOf(results).sort((a, b) => a.i - b.i),
    candidates = Object.fromEntries(lines.map((line) => [line.bed, line.candidates])),
    rows = lines.map(({ candidates: all, outcomes, ...row }) => {
      if (JSON.stringify(all) !== JSON.stringify(candidates[row.bed]))
        throw new Error(`expected the candidates of the other prompts of ${row.bed}, got others at ${row.i}`);
      return { ...row, outcomes: outcomes.map(([c, outcome]) => [c, ...fields.map((field) => short(outcome[field]))]) };
    });
  writeFileSync(
    file,
    `${JSON.stringify({ fields, candidates, rows: rows.map((row) => JSON.stringify(row)) }, undefined, 1)}\n`,
  );
} else {
  const { candidates, rows } = JSON.parse(readFileSync(file, 'utf8'));
  for (const text of rows) {
    const { outcomes, ...row } = JSON.parse(text);
    console.log(
      JSON.stringify({
        ...row,
        candidates: candidates[row.bed],
        outcomes: outcomes.map(([c, ...of]) => [c, Object.fromEntries(fields.map((field, i) => [field, of[i]]))]),
      }),
    );
  }
}
