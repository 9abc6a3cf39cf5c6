// npm run -s study -- equal-bytes/report results.json RESULTS.jsonl
// What run.mjs wrote: every cell in a file of this folder, and the tables of README.md on stdout.
import { writeFileSync } from 'node:fs';
import { mcnemar, pairedDifference, wilson } from '@kv/tasks';
import { linesOf } from '../lib/prompts-by-workers.mjs';
import { ARMS, POLICIES, short, TIMES } from './arms.mjs';

const [out, file] = process.argv.slice(2),
  prompts = linesOf(file).sort((a, b) => a.i - b.i || a.form.localeCompare(b.form)),
  n = prompts.length,
  nameOf = ({ policy, arm, times }) => `${short(policy)} ${arm}${times ? ` ${times}` : ''}`,
  cells = new Map(prompts[0].cells.map((cell) => [nameOf(cell), []]));
for (const prompt of prompts) for (const cell of prompt.cells) cells.get(nameOf(cell)).push(cell);
const full = cells.get('none f16')[0].bytes,
  mean = (rows, field) => rows.reduce((sum, row) => sum + Number(row[field]), 0) / rows.length,
  percent = (x) => `${(100 * x).toFixed(1)}`;

writeFileSync(
  new URL(out, import.meta.url),
  `${JSON.stringify({ n, full, prompts: prompts.map(({ cells: all, ...prompt }) => JSON.stringify({ ...prompt, cells: all.map((cell) => [nameOf(cell), Number(cell.inside), Number(cell.after), cell.held, cell.slots, cell.bytes, cell.kl, cell.nll]) })) }, undefined, 1)}\n`,
);

const right = (rows, bed) => {
  const hits = rows.filter((row) => row[bed]).length,
    { low, high } = wilson(hits, rows.length);
  return `${percent(hits / rows.length)} (${percent(low)}-${percent(high)})`;
};
console.log(`n = ${n}${n < 200 ? ', a screening' : ''}; the full f16 cache takes ${full} bytes\n`);
console.log('| N | policy | stored | slots | bytes | inside, % | after, % | value whole | KL | -ln p |');
console.log('| --- | --- | --- | --- | --- | --- | --- | --- | --- | --- |');
const row = (times, policy, arm, rows) =>
  console.log(
    `| ${times} | ${policy} | ${arm} | ${mean(rows, 'slots').toFixed(0)} | ${percent(mean(rows, 'bytes') / full)} % | ${right(rows, 'inside')} | ${right(rows, 'after')} | ${mean(rows, 'held').toFixed(2)} | ${mean(rows, 'kl').toFixed(4)} | ${mean(rows, 'nll').toFixed(3)} |`,
  );
for (const arm of ['f16', 'q8', 'k8v4', 'q4']) {
  const rows = cells.get(`none ${arm}`);
  row((full / mean(rows, 'bytes')).toFixed(2), 'no eviction', arm, rows);
}
for (const times of TIMES)
  for (const policy of POLICIES)
    for (const { arm } of ARMS) row(times, short(policy), arm, cells.get(`${short(policy)} ${arm} ${times}`));

// arms against q8, in pairs by prompt
const looks = POLICIES.length * TIMES.length * (ARMS.length - 1),
  BEDS = ['inside', 'after'];
console.log(`\nArms against q8, paired by prompt; p times ${looks} looks in a bed.\n`);
console.log('| N | policy | arm | inside: won, lost, p | after: won, lost, p | KL more (95 %, Bonferroni) |');
console.log('| --- | --- | --- | --- | --- | --- |');
for (const times of TIMES)
  for (const policy of POLICIES)
    for (const { arm } of ARMS.filter((one) => one.arm !== 'q8')) {
      const [a, b] = [arm, 'q8'].map((one) => cells.get(`${short(policy)} ${one} ${times}`)),
        of = (bed) => {
          const won = a.filter((one, i) => one[bed] && !b[i][bed]).length,
            lost = a.filter((one, i) => !one[bed] && b[i][bed]).length,
            p = Math.min(1, looks * mcnemar(won, lost));
          return `${won}, ${lost}, ${p < 0.001 ? '< .001' : p.toFixed(3)}`;
        },
        { difference, low, high } = pairedDifference(
          a.map((one, i) => [one.kl - b[i].kl]),
          { level: 1 - 0.05 / looks },
        );
      console.log(
        `| ${times} | ${short(policy)} | ${arm} | ${BEDS.map(of).join(' | ')} | ${difference.toFixed(4)} (${low.toFixed(4)} to ${high.toFixed(4)}) |`,
      );
    }

// the same in few lines
console.log(`\nRight answers, % (inside / after), and KL in nats a token.\n`);
console.log(`| N | policy | ${ARMS.map(({ arm }) => arm).join(' | ')} |`);
console.log(`| --- | --- | ${ARMS.map(() => '---').join(' | ')} |`);
for (const times of TIMES)
  for (const policy of POLICIES) {
    const told = ARMS.map(({ arm }) => {
      const rows = cells.get(`${short(policy)} ${arm} ${times}`);
      return `${BEDS.map((bed) => (100 * mean(rows, bed)).toFixed(0)).join(' / ')}, ${mean(rows, 'kl').toFixed(3)}`;
    });
    console.log(`| ${times} | ${short(policy)} | ${told.join(' | ')} |`);
  }

// what to take at N times fewer bytes
console.log('\n| at most 1/N of the bytes | most right answers of both beds | not told apart from it |');
console.log('| --- | --- | --- |');
for (const times of TIMES) {
  const fits = [...cells].filter(([name, rows]) =>
      name.startsWith('none') ? rows[0].bytes <= full / times : name.endsWith(` ${times}`),
    ),
    score = ({ inside, after }) => (Number(inside) + Number(after)) / 2,
    [best, ...others] = fits.toSorted(
      ([, a], [, b]) =>
        b.reduce((s, x) => s + score(x), 0) - a.reduce((s, x) => s + score(x), 0) || mean(a, 'kl') - mean(b, 'kl'),
    ),
    told = ([name, rows]) =>
      `${name.replace(/ \d+$/, '')} (inside ${percent(mean(rows, 'inside'))}, after ${percent(mean(rows, 'after'))}, KL ${mean(rows, 'kl').toFixed(3)})`,
    alike = others.filter(([, rows]) => {
      const { low } = pairedDifference(best[1].map((one, i) => [score(one) - score(rows[i])]));
      return low <= 0;
    });
  console.log(`| ${times} | ${told(best)} | ${alike.map(told).join('; ') || 'none'} |`);
}
