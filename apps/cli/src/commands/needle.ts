import { relative, resolve } from 'node:path';
import { compile } from '@kv/core/engine';
import {
  checkWritable,
  modeTitles,
  needleColumns,
  needleConclusion,
  needleDefaults,
  needleLegend,
  needleReport,
  needleTable,
  writeWhole,
} from '@kv/evaluation';
import type { Mode, NeedleRunOptions, NeedleRow, NeedleTable } from '@kv/evaluation';
import { Command } from 'commander';
import { colors as pc } from '../colors.ts';
import { fitColumns, reflow } from '../columns.ts';
import { deviceOption } from '../device.ts';
import { chooseEngine, engineOption, hostOnly } from '../engine.ts';
import { withFlagNames, here, machineOf, namingOf, run, subjectOf, workersOption } from '../experiment.ts';
import { withExamples } from '../help.ts';
import { MODEL_HELP } from '../model-source.ts';
import { budget, list, number, oneOf, whole } from '../option-values.ts';
import { plain } from '../plain.ts';
import { resolvePolicy } from '../policy/resolve-policy.ts';
import { duration } from '../progress.ts';
import { policiesOf, policiesOption } from '../shared-options.ts';
import type { PolicyFlags } from '../shared-options.ts';
import { lineWidth } from '../terminal.ts';
import type { Terminal } from '../terminal.ts';

interface Flags extends Omit<NeedleRunOptions, 'modes' | 'policies'>, PolicyFlags {
  readonly model: string;
  readonly mode: Mode | 'both';
  readonly out?: string;
  readonly fresh?: true;
}

/** `kv needle`: which policy still lets the model answer at which budget. */
export const needleCommand = (terminal: Terminal): Command => {
  return withExamples(
    policiesOption(
      new Command('needle')
        .description('Hide facts in a book and see which policy still lets the model answer at which budget.')
        .option('--model <name>', MODEL_HELP, 'embedded')
        .option(...engineOption('f32'))
        .option(...deviceOption),
      'policies',
      needleDefaults.policies,
    )
      .option(
        '--budgets <list>',
        'slots per layer and KV head, or shares of the prompt, between commas',
        list('--budgets', budget('--budgets')),
        needleDefaults.budgets,
      )
      .option(
        '--depths <list>',
        'where the fact stands, 0 (first) to 1 (last), between commas',
        list('--depths', number('--depths', { min: 0, max: 1 })),
        needleDefaults.depths,
      )
      .option(
        '--prompts <n>',
        'prompts at each depth; every policy, budget and mode answers them all',
        whole('--prompts', { min: 1 }),
        needleDefaults.prompts,
      )
      .option('--tokens <n>', 'length of every prompt', whole('--tokens', { min: 64 }), needleDefaults.tokens)
      .option(
        '--mode <mode>',
        'aware (question in the prompt), agnostic (question after the eviction) or both',
        oneOf('--mode', [...needleDefaults.modes, 'both']),
        'both',
      )
      .option(
        '--form <form>',
        'code (8 characters), number (7 digits) or both in turn',
        oneOf('--form', ['code', 'number', 'both']),
        needleDefaults.form,
      )
      .option(
        '--asking <form>',
        'cued (the prompt ends before the value) or free (it ends in a question, and the answer has to name the value)',
        oneOf('--asking', ['cued', 'free']),
        needleDefaults.asking,
      )
      .option(
        '--distractors <n>',
        'other facts of the same form in the text',
        whole('--distractors', { max: 16 }),
        needleDefaults.distractors,
      )
      .option('--block <n>', 'prefill in blocks of so many tokens, an event after each', whole('--block', { min: 1 }))
      .option('--seed <n>', 'other prompts', whole('--seed'), needleDefaults.seed)
      .option(...workersOption)
      .option('--out <file>', 'the HTML report (default: beside the results, in .kv)')
      .option('--fresh', 'forget the results of earlier runs with these settings')
      .action((flags: Flags, command: Command) => withFlagNames(command, () => needle(flags, command))),
    ['kv needle', 'policies x budgets x depths on the embedded model; Ctrl-C and go on later'],
    [
      "kv needle --policy 'snapkv(window=16,kernel=17,pooling=max)' --policy tova --budgets 32,25% --prompts 10",
      'two policies, and the full cache beside them',
    ],
    ['kv needle --model model.gguf --tokens 1024 --mode aware', 'a checkpoint of yours'],
  );

  async function needle(flags: Flags, command: Command): Promise<void> {
    const { cwd, stdout } = terminal,
      { model, budgets, depths, prompts, tokens, seed, mode, form, asking, distractors, fresh } = flags,
      policies = policiesOf(flags, needleDefaults.policies);
    if (flags.out !== undefined) checkWritable(resolve(cwd, flags.out), flags.out);
    const compiled = await Promise.all(policies.map(async (text) => compile(await resolvePolicy(text, terminal)))),
      machine = machineOf(command, await chooseEngine(command, cwd, hostOnly(compiled))),
      { subject, path } = await subjectOf(model, machine, terminal);
    const asked = { policies, budgets, depths, prompts, tokens, seed, form, asking, distractors },
      modes = mode === 'both' ? needleDefaults.modes : [mode],
      table = await needleTable(subject, { ...asked, modes }, namingOf(terminal, machine)),
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

/** Formats the rows as a table of this width, one block per mode, and explains its columns. */
export function needleText({ settings, rows }: NeedleTable, width: number): string {
  const head = needleColumns.map(([title]) => pc.dim(title)),
    right = new Set(head.keys());
  right.delete(0);
  const blocks = settings.modes.map((mode) => {
    const ofMode = rows.filter(({ way }) => way.mode === mode);
    const cells = ofMode.map((row, i) => line(row, ofMode[i - 1]));
    const concluded = needleConclusion(rows, mode),
      table = `${pc.bold(reflow(modeTitles[mode], width))}\n${fitColumns([head, ...cells], right, width)}`;
    return concluded === undefined ? table : `${table}\n${reflow(plain(concluded), width)}`;
  });
  return `${blocks.join('\n\n')}\n\n${pc.dim(reflow([needleLegend, ...unfit(rows)].join('\n'), width))}`;
}

function line(row: NeedleRow, above: NeedleRow | undefined): readonly string[] {
  const { share } = row.accuracy,
    tint = share >= 0.9 ? pc.green : share < 0.4 ? pc.red : pc.yellow;
  return needleColumns.map(([title, cell]) => {
    if (title === 'policy' && above?.policy === row.policy) return '';
    return title === 'right' && row.way.forced === undefined ? tint(cell(row)) : cell(row);
  });
}

/** Returns a sentence for every policy and budget that cannot run, whatever the mode. */
const unfit = (rows: readonly NeedleRow[]): readonly string[] => [
  ...new Set(
    rows.flatMap(({ policy, way: { forced, budget } }) =>
      forced === undefined
        ? []
        : [`no room: ${plain(policy)} forces ${forced} slots in every head, more than ${budget}; not run.`],
    ),
  ),
];
