import { resolve } from 'node:path';
import { counted } from '@kv/core/shared';
import { KvError, maybe, required, text } from '@kv/core';
import type { ResolvedOptions } from '@kv/core';
import {
  branch,
  branchGate,
  branchMeanings,
  confirm,
  generationOf,
  documentsOf,
  openLedger,
  pLegend,
  probe,
  protocolExample,
  protocolFields,
  readIds,
  readProtocol,
  seedNote,
  splitIds,
  evidenceLevel,
  TASK,
  tiedLambdas,
  tuningIds,
  VERDICT,
} from '@kv/evaluation';
import type {
  ArmSummary,
  PlanModel,
  ModelRunner,
  ConfirmationReport,
  ConfirmationLog,
  ProbeOutcome,
  LoadedPlan,
} from '@kv/evaluation';
import { Command } from 'commander';
import { CELL_MACHINE, cellBench } from '../cells.ts';
import { colors as pc } from '../colors.ts';
import { fitColumns, reflow } from '../columns.ts';
import { withFlags } from '../flags.ts';
import { withExamples } from '../help.ts';
import type { HelpExample } from '../help.ts';
import { plain } from '../plain.ts';
import { on } from '../shared-options.ts';
import { lineWidth } from '../terminal.ts';
import type { Stream, Terminal } from '../terminal.ts';

/** Flags of the steps of `kv protocol`. */
const json = on('Print JSON.'),
  SPLIT = { ids: required(text('', 'a file', 'A JSON array of ids.')), json },
  PROBE = {
    ...CELL_MACHINE,
    ids: maybe(
      text('', 'a file', 'Only these ids, a JSON array, which later steps then say; one to confirm on is refused.'),
    ),
    json,
  },
  CONFIRM = { ...CELL_MACHINE, json },
  BRANCH = { json };

/** `kv protocol`: chooses a weight on one part of the problems and confirms it, once, on the other. */
export const protocolCommand = (terminal: Terminal): Command => {
  const { cwd, stdout } = terminal,
    print = (value: unknown): void => {
      stdout.write(`${JSON.stringify(value, undefined, 1)}\n`);
    },
    show = (text: string): void => {
      stdout.write(reflow(text, lineWidth(stdout)));
    },
    note = (step: string, text: string | undefined): void => {
      if (text !== undefined) terminal.stderr.write(`${step}: ${text}\n`); // which --quiet decides later
    },
    at = (file: string): [path: string, called: string] => [resolve(cwd, file), plain(file)],
    idsOf = (file: string): readonly string[] => {
      const ids = readIds(...at(file));
      if (ids.length === 0) throw new KvError(plain(file), 'expected at least one id, got none');
      return ids;
    };
  const split = withFlags(new Command('split'), SPLIT)
    .description('Split ids by md5 mod 5: 0 and 1 to choose on (dev), the others to confirm on.')
    .action(({ ids, json: asJson }: ResolvedOptions<typeof SPLIT>) => {
      const { dev, confirm: held } = splitIds(idsOf(ids));
      if (asJson) print({ dev, confirm: held });
      else stdout.write(`dev: ${dev.length}\nconfirm: ${held.length}\n`);
    });

  const probing = withFlags(new Command('probe'), PROBE)
    .description('Try every weight of a plan on ids to choose on, at the mean cache of its base.')
    .argument('<plan>', 'a JSON file: tasks, models, budgets, base, candidate, lambdas')
    .action(async (plan: string, { ids, json: asJson }: ResolvedOptions<typeof PROBE>, command: Command) => {
      const protocol = readProtocol(...at(plan)),
        asked = ids === undefined ? protocol.dev : tuningIds(idsOf(ids), protocol, plain(ids));
      note('probe', seedNote(protocol.plan));
      const found = await probe(protocol, asked, await bedOf(protocol, command), ledgerOf(protocol));
      if (asJson) print(found);
      else show(probeText(found, stdout));
    });

  const confirming = withFlags(new Command('confirm'), CONFIRM)
    .description(
      'Run the chosen weight on the ids to confirm on. A second run is allowed but recorded as look 2, and is no confirmation.',
    )
    .argument('<plan>', 'the plan that was probed')
    .action(async (plan: string, { json: asJson }: ResolvedOptions<typeof CONFIRM>, command: Command) => {
      const protocol = readProtocol(...at(plan)),
        ledger = ledgerOf(protocol);
      note('confirm', seedNote(protocol.plan));
      const found = await confirm(protocol, await bedOf(protocol, command), ledger);
      if (found.look > 1)
        note('confirm', `look ${found.look}: ${found.seen} of these ${found.ids} problems were looked at before`);
      if (asJson) print(found);
      else show(confirmText(found, stdout));
    });

  const deciding = withFlags(new Command('branch'), BRANCH)
    .description('Say which branch of the rule the confirmation of a plan comes to.')
    .argument('<plan>', 'the plan that was confirmed')
    .action((plan: string, { json: asJson }: ResolvedOptions<typeof BRANCH>) => {
      const protocol = readProtocol(...at(plan)),
        found = branch(protocol, ledgerOf(protocol));
      if (asJson) print(found);
      else show(branchText(found));
    })
    .addHelpText(
      'after',
      `\nThe rule, fixed before anything is run:\n${Object.entries(branchMeanings)
        .map(([letter, meaning]) => `  ${letter}  ${meaning}`)
        .join('\n')}\n${branchGate} Fewer than ${VERDICT} ids to confirm on are a screening, not a verdict. ${pLegend}`,
    );

  const ledgerOf = (protocol: LoadedPlan): ConfirmationLog => openLedger(resolve(cwd, '.kv'), protocol);

  async function bedOf({ plan, problems }: LoadedPlan, command: Command): Promise<ModelRunner> {
    const bench = await cellBench(command, terminal),
      found = new Map<string, ReturnType<typeof bench.subject>>();
    const subject = (name: string): ReturnType<typeof bench.subject> => {
      const source = plan.models.find((one) => one.name === name)!.model, // the plan has it
        known = found.get(name) ?? bench.subject(source);
      found.set(name, known);
      return known;
    };
    return {
      names: bench.naming.names,
      identity: async (name) => {
        const { fingerprint: weights, engine } = (await subject(name)).subject;
        return { weights, engine };
      },
      run: async (name, cells) =>
        bench.answers(await subject(name), {
          tasks: { [TASK]: problems },
          generation: generationOf(plan),
          policies: [plan.base, plan.candidate.replaceAll('{lambda}', '1')],
          cells,
        }),
    };
  }

  const steps: readonly (readonly [Command, HelpExample])[] = [
    [split, ['kv protocol split --ids ids.json --json', 'both parts, for a plan']],
    [probing, ['kv protocol probe plan.json', 'try every weight on the ids to choose on']],
    [confirming, ['kv protocol confirm plan.json', 'run the chosen one on the others, once']],
    [deciding, ['kv protocol branch plan.json', 'say what that comes to']],
  ];
  return steps.reduce(
    (command, [step, example]) => command.addCommand(withExamples(step, example)),
    withExamples(
      new Command('protocol').description(
        'Choose a weight on one part of the problems and confirm it, once, on the other, at equal mean cache.',
      ),
      ...steps.map(([, example]) => example),
    ).addHelpText('after', `\nA plan:\n${protocolExample}\n\nIts fields (defaults in brackets):\n${protocolFields}`),
  );
};

const points = (share: number): string => `${share > 0 ? '+' : ''}${(100 * share).toFixed(2)}`;
const table = (on: Stream, head: readonly string[], rows: readonly (readonly string[])[]): string =>
  fitColumns([head.map(pc.dim), ...rows], new Set([...head.keys()].slice(1)), lineWidth(on));
const armCells = ({ accuracy, unparsed, meanSlots, peakSlots }: ArmSummary): readonly string[] => [
  `${(100 * accuracy).toFixed(1)} %`,
  `${(100 * unparsed).toFixed(1)} %`,
  meanSlots.toFixed(1),
  String(peakSlots),
];
const ARM = ['right', 'unparsed', 'mean slots', 'peak slots'] as const;

function probeText({ ids, of, probes, models, lambda, gains, cells }: ProbeOutcome, stdout: Stream): string {
  const rows = cells.flatMap(({ model, budget, base, arms }) => [
    [plain(model), String(budget), 'base', ...armCells(base), ''],
    ...arms.map((arm) => [
      plain(model),
      `${arm.slots}${arm.matched ? '' : ' (not matched)'}`,
      String(arm.lambda),
      ...armCells(arm),
      points(arm.gain),
    ]),
  ]);
  const means = gains
      .map(({ lambda: at, gain, matched }) => `${at}: ${points(gain)}${matched ? '' : ' (not matched)'}`)
      .join(', '),
    asked = ids < of ? `${ids} of ${of} ids` : `${ids} ids`,
    chosen =
      lambda === undefined
        ? "no lambda: none has the base's mean cache in every cell, so that no gain counts"
        : `lambda: ${lambda}${tieText(gains.filter(({ matched }) => matched))}`;
  const apart = cells.flatMap(({ model, budget, atZero }) =>
    atZero && atZero.differ > 0
      ? [
          `at lambda 0 the candidate is not the base: on ${plain(model)} with ${budget} slots it answers ${atZero.differ} of ${atZero.of} problems otherwise, so that more than lambda is compared\n`,
        ]
      : [],
  );
  return `${table(stdout, ['model', 'budget', 'lambda', ...ARM, 'gain'], rows)}\n\n${apart.join('')}mean gain in points on ${asked}: ${means}\n${chosen}\n${probes > 1 ? `probe ${probes} of these problems\n` : ''}${screeningText(ids)}\n${modelsText(models)}\n`;
}

/** Describes the models by their weights, whatever their names. */
const modelsText = (models: readonly PlanModel[]): string =>
  models.map(({ name, weights, engine }) => `${plain(name)}: weights ${weights} on ${engine}`).join('\n');

/** Dev ids are a screening, however many. */
const screeningText = (n: number): string => `screening, n = ${n} (ids to choose on give no verdict)`;

/** Describes the evidence level of problems of `n` documents. */
const evidenceText = (n: number): string =>
  `${evidenceLevel(n)}, n = ${n}${evidenceLevel(n) === 'screening' ? ` (a verdict takes ${VERDICT})` : ''}`;

/** Describes how a tie between weights was broken, if there was one. */
function tieText(gains: ProbeOutcome['gains']): string {
  const tied = tiedLambdas(gains);
  if (tied.length < 2) return '';
  const all = tied.length === gains.length ? 'all weights tie' : `${tied.join(', ')} tie`;
  return ` (${all}: of mean gains within half a point of the best the smallest weight is taken)`;
}

function confirmText(
  { verdict, config, look, models, lambda, ids, seeds, cells }: ConfirmationReport,
  stdout: Stream,
): string {
  const rows = cells.flatMap(({ model, budget, base, candidate, matched, difference, low, high, p, bonferroni }) => [
    [plain(model), String(budget), 'base', ...armCells(base), '', '', '', ''],
    [
      plain(model),
      `${candidate.budget}${matched ? '' : ' (not matched)'}`,
      'candidate',
      ...armCells(candidate),
      points(difference),
      `[${points(low)}, ${points(high)}]`,
      p.toFixed(4),
      bonferroni.toFixed(4),
    ],
  ]);
  return `${verdict === `look ${look} at these ids` ? '' : `${verdict}\n\n`}${table(stdout, ['model', 'budget', 'arm', ...ARM, 'points', '95 %', 'p', 'Bonferroni'], rows)}\n\nlambda ${lambda} on ${counted(ids, 'id')}, ${counted(seeds.length, 'seed')}; configuration ${config}, look ${look}\n${evidenceText(documentsOf(cells))}\n${modelsText(models)}\n${pLegend}\n`;
}

const branchText = ({
  verdict,
  primaryGains,
  secondMeanPositive,
  noSecondLoss,
  noLoss,
  passed,
  cells,
  documents,
  config,
  models,
  lambda,
  looks,
}: ReturnType<typeof branch>): string => {
  const yes = (is: boolean): string => (is ? 'yes' : 'no');
  return `${verdict}
a primary cell gains, p < .05: ${yes(primaryGains)}
second cells gain on average: ${yes(secondMeanPositive)}
no second cell loses, p < .05: ${yes(noSecondLoss)}
no cell of either role loses, p < .05 (stricter than the rule): ${yes(noLoss)}
cells that gain after Bonferroni: ${passed} of ${cells}
${evidenceText(documents)}
${modelsText(models)}
lambda ${lambda}; configuration ${config}; looks at these ids: ${looks}
`;
};
