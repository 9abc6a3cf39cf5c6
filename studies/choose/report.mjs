// npm run -s study -- choose/report results.json RESULTS.jsonl
// Choices over what run.mjs measured: ten seeds, 200 repetitions and a bed of pure noise; in a file of this folder, and
// the tables of README.md on stdout.
import { writeFileSync } from 'node:fs';
import { recommendedPolicies } from '@kv/policies';
import { random } from '@kv/tasks';
import { linesOf } from '../lib/prompts-by-workers.mjs';
import { BEDS, DRAWN, SEEDS } from './beds.mjs';
import { chosenFrom, lossesOf, poolOf } from './replay.mjs';

const [out, file] = process.argv.slice(2),
  REPEATS = 200,
  NEAR = 0.02,
  lines = linesOf(file).sort((a, b) => a.i - b.i),
  mean = (all) => all.reduce((sum, x) => sum + x, 0) / all.length,
  points = (share) => (100 * share).toFixed(1),
  defaults = recommendedPolicies.map(({ policy }) => policy),
  beds = Object.keys(BEDS).flatMap((bed) => {
    const of = lines.filter((line) => line.bed === bed);
    if (of.length === 0) return [];
    const pool = poolOf(of),
      losses = pool.candidates.map((_, c) => (pool.refused.has(c) ? Infinity : mean(lossesOf(pool, c)))),
      best = losses.indexOf(Math.min(...losses));
    return [{ bed, pool, losses, best, goal: { budget: BEDS[bed].budget } }];
  });

/** The recommended policy with the least mean loss over all beds: what a person takes who looks at no prompt. */
const lossOf = ({ pool, losses }, policy) => losses[pool.candidates.findIndex((one) => one.policy === policy)],
  overall = (policy) => mean(beds.map((bed) => lossOf(bed, policy))),
  fixed = defaults.reduce((a, b) => (overall(b) < overall(a) ? b : a));

/** What a choice says, beside the truth: the mean over its whole pool. */
function told({ pool, losses }, choice) {
  const { policy, confirmed, loss } = choice.rows[choice.chosen],
    c = pool.candidates.findIndex((one) => one.policy === policy);
  return {
    ...{ policy, truth: losses[c], choosing: loss, confirmed, tied: choice.tied.length },
    confirmedRows: choice.rows.filter((row) => row.confirmed).length,
    dropped: choice.rows.filter(({ alive }) => !alive).length,
    covered: confirmed.low <= losses[c] + 1e-9 && losses[c] <= confirmed.high + 1e-9,
    // the mistake that the confirming part is for
    claimed: loss.low <= losses[c] + 1e-9 && losses[c] <= loss.high + 1e-9,
  };
}

/** Chooses once for each seed from prompts drawn without replacement. */
async function seeds(bed) {
  const found = [];
  for (let seed = 1; seed <= SEEDS; seed++) {
    const drawn = random(`choose/${bed.bed}/${seed}`).sample([...bed.pool.references.keys()], DRAWN);
    found.push({ seed, ...told(bed, await chosenFrom(bed.pool, drawn, seed, bed.goal)) });
  }
  return found;
}
/** Chooses again and again from prompts drawn with replacement, so that those that confirm are fresh. */
async function repeats(bed, name) {
  const found = [],
    draw = random(`choose/${name}/${bed.bed}`);
  for (let r = 0; r < REPEATS; r++) {
    const drawn = Array.from({ length: DRAWN }, () => draw.below(bed.pool.references.length));
    found.push(told(bed, await chosenFrom(bed.pool, drawn, r, bed.goal)));
  }
  return found;
}
/** The bed with the candidates' outcomes shuffled on every prompt: no candidate differs from another. */
function noiseOf(bed) {
  const draw = random(`choose/noise/${bed.bed}`),
    outcomes = bed.pool.outcomes.map((of) => {
      const values = draw.sample([...of.values()], of.size);
      return new Map([...of.keys()].map((c, at) => [c, values[at]]));
    });
  return {
    ...bed,
    pool: { ...bed.pool, outcomes },
    losses: bed.losses.map((_, c) => mean(lossesOf({ ...bed.pool, outcomes }, c))),
  };
}

const report = [];
for (const bed of beds) {
  const ten = await seeds(bed),
    many = await repeats(bed, 'repeats'),
    noise = await repeats(noiseOf(bed), 'noise'),
    { pool, losses, best } = bed;
  report.push({
    ...{ bed: bed.bed, model: pool.model, prompts: losses.length && pool.references.length, candidates: losses.length },
    full: mean(pool.references.map(({ right }) => right)),
    best: { policy: pool.candidates[best].policy, loss: losses[best] },
    fixed: { policy: fixed, loss: lossOf(bed, fixed) },
    seeds: ten,
    repeats: {
      covered: mean(many.map(({ covered }) => Number(covered))),
      claimed: mean(many.map(({ claimed }) => Number(claimed))),
      near: mean(many.map(({ truth }) => Number(truth <= losses[best] + NEAR + 1e-9))),
      regret: mean(many.map(({ truth }) => truth - losses[best])),
      dropped: mean(many.map(({ dropped }) => dropped)),
    },
    noise: {
      none: mean(noise.map(({ tied, confirmedRows }) => Number(tied === confirmedRows - 1))),
      covered: mean(noise.map(({ covered }) => Number(covered))),
      dropped: mean(noise.map(({ dropped }) => dropped)),
    },
    losses: pool.candidates.map(({ policy, budget }, c) => [policy, budget, losses[c]]),
  });
}
writeFileSync(new URL(out, import.meta.url), `${JSON.stringify(report, undefined, 1)}\n`);

console.log(`the best fixed default over these beds: \`${fixed}\`\n`);
console.log(
  '| bed | prompts | full cache, % right | best of the sweep | its loss | fixed default | seeds within 2 points | never worse than the default | worst seed |',
);
console.log('| --- | --- | --- | --- | --- | --- | --- | --- | --- |');
for (const { bed, prompts, full, best, fixed: one, seeds: ten } of report) {
  const near = ten.filter(({ truth }) => truth <= best.loss + NEAR + 1e-9).length,
    atLeast = ten.filter(({ truth }) => truth <= one.loss + 1e-9).length,
    worst = Math.max(...ten.map(({ truth }) => truth));
  console.log(
    `| ${bed} | ${prompts} | ${points(full)} | \`${best.policy}\` | ${points(best.loss)} | ${points(one.loss)} | ${near} of ${ten.length} | ${atLeast} of ${ten.length} | ${points(worst)} |`,
  );
}
console.log(`\n${REPEATS} repetitions; noise: outcomes shuffled between candidates on every prompt.\n`);
console.log(
  '| bed | interval of fresh prompts covers, % | interval of those that chose would, % | within 2 points, % | mean regret | candidates out of the race | noise: no difference, % | noise: covers, % |',
);
console.log('| --- | --- | --- | --- | --- | --- | --- | --- |');
for (const { bed, repeats: of, noise } of report)
  console.log(
    `| ${bed} | ${points(of.covered)} | ${points(of.claimed)} | ${points(of.near)} | ${points(of.regret)} | ${of.dropped.toFixed(1)} | ${points(noise.none)} | ${points(noise.covered)} |`,
  );
console.log('\n| bed | seed | choice | its loss on the pool | confirmed (95 %) | not told from it |');
console.log('| --- | --- | --- | --- | --- | --- |');
for (const { bed, seeds: ten } of report)
  for (const { seed, policy, truth, confirmed, tied, confirmedRows } of ten)
    console.log(
      `| ${bed} | ${seed} | \`${policy}\` | ${points(truth)} | ${points(confirmed.mean)} (${points(confirmed.low)} to ${points(confirmed.high)}) | ${tied} of ${confirmedRows - 1} |`,
    );
