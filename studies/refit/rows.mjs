// npm run -s study -- refit/rows > RESULTS.jsonl
// The rows of results.json, for run.mjs to go on with.
import { readFileSync } from 'node:fs';

const { fields, documents } = JSON.parse(readFileSync(new URL('results.json', import.meta.url), 'utf8')),
  kinds = fields.slice(1, fields.indexOf('code held')),
  cellOf = ([name, ...rest]) => {
    if (rest.length === 1) return { name, refused: rest[0] };
    const some = (from) => Object.fromEntries(kinds.map((kind, i) => [kind, rest[from + i]])),
      [slots, bytes, kl, nll, top, ms] = rest.slice(2 * kinds.length);
    return { name, answers: some(0), held: some(kinds.length), slots, bytes, kl, nll, top, ms };
  };
for (const text of documents) {
  const { cells, ...of } = JSON.parse(text);
  console.log(JSON.stringify({ ...of, cells: cells.map(cellOf) }));
}
