// Choices over stored results: `choose` itself, with a runner that looks up what the sweep measured.
import { choose } from '@kv/evaluation/choose';

/** The lines of a bed, by prompt, as a pool: a population of prompts whose every outcome is known. */
export function poolOf(lines) {
  const [{ candidates, form, model }] = lines,
    differs = lines.find((line) => JSON.stringify(line.candidates) !== JSON.stringify(candidates));
  if (differs) throw new Error(`expected the candidates of ${lines[0].bed} ${lines[0].i}, got others at ${differs.i}`);
  return {
    ...{
      form,
      model,
      candidates: candidates.map(([policy, budget]) => ({ policy, budget, share: 1, bytes: 1, cost: 0.1 })),
    },
    references: lines.map(({ reference }) => reference),
    // one that failed on some prompt cannot be chosen
    refused: new Map(lines.flatMap(({ refused }) => refused)),
    outcomes: lines.map(({ outcomes }) => new Map(outcomes)),
  };
}

/** Returns the loss of a candidate on each prompt of a pool: the full cache's grade minus its own. */
export const lossesOf = ({ references, outcomes }, c) =>
  references.map(({ right }, i) => right - (outcomes[i].get(c)?.right ?? 0));

/** Chooses by prompts of a pool, given by number; one that is drawn twice is two. */
export const chosenFrom = (pool, drawn, seed, goal) =>
  choose(
    { name: pool.model, engine: 'stored', fingerprint: 'stored', config: { maxPositions: Infinity } },
    drawn.map((i, at) => ({ document: String(at), ids: [i], answers: ['stored'], origin: String(i) })),
    {
      ...{ candidates: pool.candidates, goal, seed, minutes: Infinity },
      start: () => ({
        run: async ({ prompts, ladders }) => looked(pool, drawn, prompts, ladders),
        stop: async () => {},
      }),
    },
  );

function looked({ form, references, outcomes, refused }, drawn, prompts, ladders) {
  const asked = ladders.flat();
  return {
    form,
    references: prompts.map((at) => [at, references[drawn[at]]]),
    outcomes: prompts.flatMap((at) =>
      asked.filter((c) => !refused.has(c)).map((c) => [at, c, outcomes[drawn[at]].get(c)]),
    ),
    refused: asked.filter((c) => refused.has(c)).map((c) => [c, refused.get(c)]),
    ms: { full: 1, candidates: 1 },
  };
}
