/**
 * The cost of one event of every policy on a real checkpoint, as a share of prefill. Each policy runs in a process of
 * its own, first cold, as in a first command, then warm. Fetches SmolLM2-135M if no model is given.
 *
 *   npm run bench event        or, once built:   node bench/event.bench.mjs --tokens 1024,4096 --only snapkv,tova --repeat 3
 *
 * Times are processor times of the main thread, so that other work on the machine does not count; `--clock wall` takes
 * wall times. `--paired` also reads every prompt with the full cache, in turn.
 */
import { spawnSync } from 'node:child_process';
import { fileURLToPath } from 'node:url';
import { policyNames } from '@kv/policies';
import { commandLine } from './lib/command-line.mjs';
import { median, spread } from './lib/spread.mjs';

const here = (path) => fileURLToPath(new URL(path, import.meta.url));
const {
  tokens: lengths,
  repeat,
  rounds,
  engine,
  budget,
  clock,
  paired,
  only: names,
  model = run([here('../tools/smollm2.mjs')]).trim(),
} = commandLine({
  model: undefined,
  tokens: [1024, 4096],
  repeat: 3,
  rounds: 2,
  engine: 'fast',
  budget: '25%',
  clock: 'thread',
  paired: false,
  only: policyNames,
});

/** Returns what a script prints. @throws its last line if it fails. */
function run(args) {
  const { status, stdout, stderr } = spawnSync(process.execPath, args, { encoding: 'utf8', maxBuffer: 2 ** 26 });
  if (status === 0) return stdout;
  throw new Error(stderr.split('\n').find((line) => /Error/.test(line)) ?? stderr);
}

const event = ({ score, settle, compact }) => score + settle + compact,
  share = (read) => (100 * event(read)) / (read.prefill - event(read));

for (const tokens of lengths) {
  const rows = [];
  for (const name of names) {
    const job = JSON.stringify({ model, engine, name, tokens, budget, rounds, paired, clock });
    try {
      const runs = Array.from({ length: repeat }, () => JSON.parse(run([here('lib/event-run.mjs'), job])));
      const first = runs.map((r) => r.first),
        later = runs.flatMap((r) => r.later);
      if (rows.length === 0)
        console.log(
          `\n## ${tokens} tokens, ${runs[0].engine}, ${clock} clock, budget ${budget}\n\n` +
            `| policy | cold, % of prefill | warm | cold, ms (score + settle + compact) | warm, ms |${paired ? ' prefill less the full cache, % |' : ''} peak MiB |\n| --- |${' --- |'.repeat(paired ? 6 : 5)}`,
        );
      const stages = (reads) => ['score', 'settle', 'compact'].map((stage) => median(reads.map((r) => r[stage])));
      const warm = later.map(({ own }) => own);
      rows.push(name);
      console.log(
        `| ${name}${first[0].passes > 0 ? ' (a pass of its own)' : ''} | ${spread(first.map(share), 2)} | ${spread(warm.map(share), 2)} | ${median(first.map(event)).toFixed(1)} (${stages(
          first,
        )
          .map((x) => x.toFixed(0))
          .join(' + ')}) | ${median(warm.map(event)).toFixed(1)} |${
          paired
            ? ` ${spread(
                later.map(({ full, own }) => 100 * (own.prefill / full.prefill - 1)),
                1,
              )} |`
            : ''
        } ${(first[0].peak / 2 ** 20).toFixed(0)} |`,
      );
    } catch (error) {
      console.log(`| ${name} | ${error.message.trim().slice(0, 200)} |`);
    }
  }
}
