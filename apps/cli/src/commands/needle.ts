import { relative, resolve } from 'node:path';
import { maybe, text } from '@kv/core';
import type { ResolvedOptions } from '@kv/core';
import { compile } from '@kv/core/engine';
import {
  modeTitles,
  NEEDLE,
  needleColumns,
  needleConclusion,
  needleLegend,
  needleReport,
  needleTable,
} from '@kv/evaluation';
import { checkWritable, writeWhole } from '@kv/evaluation/files';
import type { NeedleRow, NeedleTable } from '@kv/evaluation';
import { Command } from 'commander';
import { colors as pc } from '../colors.ts';
import { fitColumns, reflow } from '../columns.ts';
import { chooseEngine, hostOnly } from '../engine.ts';
import { here, machineOf, namingOf, run, subjectOf, workersOption } from '../experiment.ts';
import { withFlags, withFlagNames } from '../flags.ts';
import { withExamples } from '../help.ts';
import { plain } from '../plain.ts';
import { resolvePolicy } from '../policy/resolve-policy.ts';
import { duration } from '../progress.ts';
import { machineOptions, on, policiesOf, policyOptions } from '../shared-options.ts';
import { lineWidth } from '../terminal.ts';
import type { Terminal } from '../terminal.ts';

/** Flags of `kv needle`. */
export const NEEDLE_FLAGS = {
  ...machineOptions('f32'),
  ...NEEDLE,
  ...policyOptions(NEEDLE.policies),
  workers: workersOption,
  out: maybe(text('', 'a file', 'The HTML report.'), 'next to the results, in .kv'),
  fresh: on('Discard the results of earlier runs with these settings.'),
};
type Flags = ResolvedOptions<typeof NEEDLE_FLAGS>;

/** `kv needle`: which policy still lets the model answer at which budget. */
export const needleCommand = (terminal: Terminal): Command => {
  return withExamples(
    withFlags(
      new Command('needle').description(
        'Hide facts in a book and see which policy still lets the model answer at which budget.',
      ),
      NEEDLE_FLAGS,
    ).action((flags: Flags, command: Command) => withFlagNames(command, () => needle(flags, command))),
    ['kv needle', 'policies x budgets x depths on the embedded model; Ctrl-C and go on later'],
    [
      'kv needle --policy taFast --policy attendedSentences --budgets 32,25% --prompts 10',
      'two policies, compared with the full cache',
    ],
    ['kv needle --model model.gguf --tokens 1024 --modes aware', 'a checkpoint of yours'],
    [
      "kv needle --model model.gguf --cache f16,q8,q4 --budgets '12.5% of f16' --prompts 10",
      'coarser caches at equal bytes: fewer bits a number, more slots',
    ],
  );

  async function needle(flags: Flags, command: Command): Promise<void> {
    const { cwd, stdout } = terminal,
      { model, budgets, cache, depths, prompts, tokens, seed, modes, form, asking, distractors, block, fresh } = flags,
      policies = policiesOf(flags, NEEDLE.policies);
    if (flags.out !== undefined) checkWritable(resolve(cwd, flags.out), flags.out);
    const compiled = await Promise.all(policies.map(async (text) => compile(await resolvePolicy(text, terminal)))),
      machine = machineOf(command, await chooseEngine(command, cwd, hostOnly(compiled))),
      { subject, path } = await subjectOf(model, machine, terminal);
    const table = await needleTable(
        subject,
        { policies, budgets, cache, depths, prompts, tokens, seed, modes, form, asking, distractors, block },
        namingOf(terminal, machine),
      ),
      ran = await run(table, here({ path, cwd: terminal.cwd }, machine), fresh, terminal);
    if (!ran) return;
    const { engine } = ran.result.settings,
      out = resolve(cwd, flags.out ?? ran.path.replace(/jsonl$/, 'html')),
      called = relative(cwd, out) || out,
      seconds = ran.seconds === undefined ? '' : ` in ${duration(ran.seconds)}`;
    writeWhole(out, needleReport(ran.result), called);
    stdout.write(
      `${needleText(ran.result, lineWidth(stdout))}\n\n${promptsText(prompts, depths.length)} of ${tokens} tokens${seconds}, on ${engine}\nreport: ${plain(called)}\n`,
    );
  }
};

/** Describes the number of prompts, `each` at every depth. */
function promptsText(each: number, depths: number): string {
  const all = each * depths;
  if (depths === 1) return all === 1 ? '1 prompt' : `${all} prompts`;
  return `${all} prompts, ${each} at each of ${depths} depths,`;
}

/** Formats the rows as a table of this width, one block per mode, explains its columns, and ends in what follows. */
export function needleText({ settings, rows }: NeedleTable, width: number): string {
  const head = needleColumns.map(([title]) => pc.dim(title)),
    right = new Set([...head.keys()].slice(2)); // policies and budgets may be wrapped
  const blocks = settings.modes.map((mode) => {
    const ofMode = rows.filter(({ arm }) => arm.mode === mode);
    const cells = ofMode.map((row, i) => line(row, ofMode[i - 1]));
    return `${pc.bold(reflow(modeTitles[mode], width))}\n${fitColumns([head, ...cells], right, width)}`;
  });
  const legend = pc.dim(reflow([needleLegend, ...unfit(rows)].join('\n'), width)),
    conclusions = settings.modes.flatMap((mode) => {
      const concluded = needleConclusion(rows, mode);
      return concluded === undefined
        ? []
        : [`${pc.bold(reflow(modeTitles[mode], width))}\n${reflow(plain(concluded), width)}`];
    });
  return [...blocks, legend, ...conclusions].join('\n\n');
}

function line(row: NeedleRow, above: NeedleRow | undefined): readonly string[] {
  const { share } = row.accuracy,
    tint = share >= 0.9 ? pc.green : share < 0.4 ? pc.red : pc.yellow;
  return needleColumns.map(([title, cell]) => {
    if (title === 'policy' && above?.policy === row.policy) return '';
    return title === 'right' && row.arm.forced === undefined ? tint(cell(row)) : cell(row);
  });
}

/** Returns a sentence for every policy and budget that cannot run, whatever the mode. */
const unfit = (rows: readonly NeedleRow[]): readonly string[] => [
  ...new Set(
    rows.flatMap(({ policy, arm: { forced, budget } }) =>
      forced === undefined
        ? []
        : [`no room: ${plain(policy)} forces ${forced} slots in every head, more than ${budget}; not run.`],
    ),
  ),
];
