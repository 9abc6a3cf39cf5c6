// npm run -s study -- equal-bytes/rows > RESULTS.jsonl     the cells of results.json as run.mjs wrote them, to go on with
import { readFileSync } from 'node:fs';
import { POLICIES, short } from './arms.mjs';

const { prompts } = JSON.parse(readFileSync(new URL('results.json', import.meta.url), 'utf8'));

for (const text of prompts) {
  const { cells, ...prompt } = JSON.parse(text);
  console.log(
    JSON.stringify({
      ...prompt,
      cells: cells.map(([name, inside, after, held, slots, bytes, kl, nll]) => {
        const [of, arm, times] = name.split(' ');
        return {
          ...{ policy: POLICIES.find((policy) => short(policy) === of) ?? of, arm },
          ...(times && { times: Number(times) }),
          ...{ inside: inside === 1, after: after === 1, held, slots, bytes, kl, nll },
        };
      }),
    }),
  );
}
