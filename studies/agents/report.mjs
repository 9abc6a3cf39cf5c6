// npm run -s study -- agents/report results.json RESULTS.jsonl [LLAMA.jsonl]
// What run.mjs and llama-cpp.mjs wrote, as JSON in this folder and as tables on stdout.
import { writeFileSync } from 'node:fs';
import { bonferroni, mcnemar, pairedTest } from '@kv/tasks';
import { linesOf } from '../lib/prompts-by-workers.mjs';
import { mean, percent, print, share } from '../lib/tables.mjs';
import { POLICIES, SHARES } from './cells.mjs';

const [out, file, llamaFile] = process.argv.slice(2),
  byTrace = (name) => linesOf(name).sort((a, b) => a.i - b.i),
  traces = byTrace(file),
  llama = llamaFile ? byTrace(llamaFile) : [],
  KINDS = ['credential', 'order', 'instruction'];

const cellOf = (trace, name, at) => trace.cells.find((cell) => cell.name === name && cell.share === at);
const rightOf = (cell, kind) => cell.answers.filter((one) => kind === undefined || one.kind === kind);
const row = (cells, kind) => share(cells.flatMap((cell) => rightOf(cell, kind)).map(({ right }) => right));

/** Rows of one name and budget, over all traces. */
const groups = [['no policy', undefined], ...SHARES.flatMap((at) => POLICIES.map(({ name }) => [name, at]))].map(
  ([name, at]) => ({ name, at, cells: traces.map((trace) => cellOf(trace, name, at)) }),
);
const budget = (at) => (at === undefined ? 'all' : `${percent(at)} %`);

const turns = traces.map((trace) => trace.turns),
  lengths = [...new Set(turns)].sort((a, b) => a - b);
console.log(
  `n = ${traces.length} of 200 traces${traces.length < 200 ? ': a screening' : ''}; ${lengths.map((of) => `${turns.filter((x) => x === of).length} of ${of} turns`).join(', ')}.\n`,
);
print(
  ['kept', 'policy', ...KINDS, 'held whole', 'next call: name', 'and arguments', 'most MB', 'ms a turn'],
  groups.map(({ name, at, cells }) => {
    const calls = cells.flatMap(({ calls = [] }) => calls);
    return [
      ...[budget(at), name],
      ...KINDS.map((kind) => row(cells, kind)),
      `${percent(mean(cells.flatMap(({ answers }) => answers.map(({ held }) => held))))} %`,
      share(calls.map((one) => one.name)),
      share(calls.map((one) => one.name && one.arguments)),
      (mean(cells.map(({ bytes }) => bytes.most)) / 1e6).toFixed(1),
      mean(cells.map(({ ms }) => ms.mean)).toFixed(0),
    ];
  }),
);
console.log('By number of turns, all facts:\n');
print(
  ['kept', 'policy', ...lengths.map((of) => `${of} turns`)],
  groups.map(({ name, at, cells }) => [
    ...[budget(at), name],
    ...lengths.map((of) => row(cells.filter((_, t) => turns[t] === of))),
  ]),
);

/** TA-Fast against another policy on one kind of fact, and outstandingSentences against SnapKV on all. */
const contrasts = SHARES.flatMap((at) =>
  [...POLICIES.slice(1).flatMap(({ name }) => KINDS.map((kind) => ['TA-Fast', name, kind]))].map(([a, b, kind]) => {
    const pairs = traces.map((trace) => [a, b].map((name) => rightOf(cellOf(trace, name, at), kind)[0].right)),
      won = pairs.filter(([x, y]) => x && !y).length,
      lost = pairs.filter(([x, y]) => y && !x).length;
    return { at, a, b, kind, won, lost, p: mcnemar(won, lost) };
  }),
);
const adjusted = bonferroni(contrasts.map(({ p }) => p));
console.log('TA-Fast against the others, in pairs by trace (McNemar, Bonferroni):\n');
print(
  ['kept', 'against', 'fact', 'won', 'lost', 'p', 'adjusted'],
  contrasts.map(({ at, b, kind, won, lost, p }, i) => [
    ...[budget(at), b, kind, won, lost],
    ...[p.toFixed(4), adjusted[i].toFixed(3)],
  ]),
);

const clustered = (of) => {
  const { difference, low, high, p } = pairedTest(traces.map(of));
  return `${(100 * difference).toFixed(1)} points (${(100 * low).toFixed(1)} to ${(100 * high).toFixed(1)}, p ${p.toFixed(4)})`;
};
for (const at of SHARES) {
  const of = (trace, name) => cellOf(trace, name, at);
  console.log(
    `${budget(at)}: answers of outstandingSentences less SnapKV's: ${clustered((trace) => rightOf(of(trace, 'outstandingSentences')).map(({ right }, k) => right - rightOf(of(trace, 'SnapKV'))[k].right))}`,
  );
  console.log(
    `${budget(at)}: whole calls of StreamingLLM less TA-Fast's: ${clustered((trace) => of(trace, 'StreamingLLM').calls.map((one, k) => (one.name && one.arguments) - (of(trace, 'TA-Fast').calls[k].name && of(trace, 'TA-Fast').calls[k].arguments)))}`,
  );
}

if (llama.length > 0) {
  console.log(`\nnode-llama-cpp, ${llama.length} traces:\n`);
  const nameOf = (text) => text.split('"', 1)[0];
  print(
    ['slots', 'context', ...KINDS, 'next call: name', 'and arguments', 'without shift it stops after', 'ms a turn'],
    [['whole context', undefined], ...SHARES.map((at) => ['shift', at])].map(([name, at]) => {
      const cells = llama.map((trace) => cellOf(trace, name, at)),
        calls = llama.flatMap((trace) => {
          const whole = cellOf(trace, 'whole context').calls;
          return cellOf(trace, name, at).calls.map((text, k) => [text, whole[k]]);
        });
      return [
        ...[budget(at), name],
        ...KINDS.map((kind) => row(cells, kind)),
        ...(at
          ? [share(calls.map(([x, y]) => nameOf(x) === nameOf(y))), share(calls.map(([x, y]) => x === y))]
          : ['', '']),
        at ? `${mean(cells.map(({ stops }, t) => (100 * stops) / llama[t].turns)).toFixed(0)} % of the turns` : '',
        mean(cells.map(({ ms }) => ms)).toFixed(0),
      ];
    }),
  );
}
writeFileSync(new URL(out, import.meta.url), `${JSON.stringify({ traces, llama })}\n`);
