import { count, KvError, LEVELS, maybe, oneOf } from '@kv/core';
import type { LevelShares, ResolvedOptions } from '@kv/core';
import { budgetOption, compile } from '@kv/core/engine';
import { bytesText } from '@kv/core/shared';
import { openCheckpoint, headDims } from '@kv/checkpoints';
import { CACHE, formOf, slotModel } from '@kv/engine';
import type { Budget, ModelConfig } from '@kv/models';
import { Command } from 'commander';
import { colors as pc } from '../colors.ts';
import { countText, wrapColumns } from '../columns.ts';
import { deviceRows, deviceTable, deviceText } from '../explain/device-table.ts';
import type { DeviceCost } from '../explain/device-cost.ts';
import { predict } from '../explain/predict.ts';
import type { Prediction } from '../explain/predict.ts';
import { SHAPES } from '../explain/shapes.ts';
import { withFlagNames, withFlags } from '../flags.ts';
import { withExamples } from '../help.ts';
import { checkpointPath, modelOption, resolveModel } from '../model-source.ts';
import { resolvePolicy } from '../policy/resolve-policy.ts';
import { on } from '../shared-options.ts';
import { lineWidth } from '../terminal.ts';
import type { Terminal } from '../terminal.ts';

/** Flags of `kv explain`. */
export const EXPLAIN = {
  model: modelOption,
  shape: maybe(
    oneOf(Object.keys(SHAPES), '', `The shape of a model instead of one: ${Object.keys(SHAPES).join(' or ')}.`),
  ),
  length: count(512, 'tokens', 'Tokens of the prompt; by default no more than fit the context.'),
  budget: {
    ...budgetOption('Slots per layer and KV head, a share such as 25%, or bytes such as 64MiB.'),
    default: '25%' as Budget,
  },
  cache: {
    ...CACHE,
    otherwise: "q8, as 'kv run' with --engine fast; --engine f32 has f32",
  },
  json: on("Print one object, of 'all' an array."),
  markdown: on("Print the table of 'all' as Markdown."),
};
type ExplainOptions = ResolvedOptions<typeof EXPLAIN>;

/** `kv explain`: what a policy reads, keeps and costs. */
export const explainCommand = (terminal: Terminal): Command =>
  withExamples(
    withFlags(new Command('explain'), EXPLAIN)
      .description('Say what a policy needs, keeps and costs on a prompt of some length, before running it.')
      .argument(
        '<policy>',
        "a policy as 'kv run --policy' takes it, or 'all': a table of what every policy of the catalogue costs on a GPU",
      )
      .action(async (policy: string, given: ExplainOptions, command: Command) => {
        let options = given;
        if (options.markdown && policy !== 'all')
          throw new KvError('--markdown', `expected the policy 'all', got '${policy}'`);
        if (options.cache !== undefined && policy === 'all')
          throw new KvError(
            '--cache',
            `expected one policy, since the table of 'all' is over f32, got ${options.cache}`,
          );
        const config = options.shape === undefined ? await configOf(options.model, terminal) : SHAPES[options.shape];
        if (command.getOptionValueSource('length') === 'default')
          options = { ...options, length: Math.min(options.length, config.maxPositions) };
        if (policy === 'all') {
          const rows = await deviceRows(config, options.length, options.budget);
          const text = options.json
            ? JSON.stringify(rows)
            : options.markdown
              ? deviceTable(rows, slotModel(config).layers)
              : deviceText(rows, slotModel(config).layers, lineWidth(terminal.stdout));
          terminal.stdout.write(`${text}\n`);
          return;
        }
        const compiled = compile(await resolvePolicy(policy, terminal)),
          prediction = await withFlagNames(command, () =>
            predict(
              compiled,
              config,
              options.length,
              options.budget,
              formOf(options.cache, { otherwise: 'q8', headDims: headDims(config) }),
            ),
          );
        terminal.stdout.write(
          options.json
            ? `${JSON.stringify(prediction)}\n`
            : `${sheet(prediction, options.length, lineWidth(terminal.stdout))}\n`,
        );
      }),
    ['kv explain attendedSentences --length 4096 --budget 25%', 'what it reads, keeps and costs'],
    ['kv explain all --shape llama-3.2-1b', 'every policy on a GPU, without a model'],
  );

async function configOf(model: string, terminal: Terminal): Promise<ModelConfig> {
  const { config, close } = await openCheckpoint(checkpointPath(await resolveModel(model, terminal)), {
    signal: terminal.signal,
  });
  await close();
  return config;
}

function sheet(p: Prediction, length: number, width: number): string {
  const { bytes, multiplyAdds: work, operations } = p;
  const share = (part: number, whole: number): string => `${((100 * part) / whole).toFixed(1)} %`;
  const calls = Object.values(operations).reduce((sum, n) => sum + n, 0);
  const rows: (readonly [string, string])[] = [
    ['policy', p.policy],
    ['needs', p.needs.map(({ signal, cost }) => `${signal} (${cost})`).join(', ') || 'nothing'],
    ['extra passes', p.passes.join('; ')],
    ['evicts', p.when],
    ['slots kept', slotsText(p.budgets, length)],
    ...(p.levels ?? []).map((shares) => ['levels', sharesText(shares)] as const),
    ...p.notes.map((note) => ['note', note] as const),
    [
      `cache, ${p.cache.form}`,
      `${bytesText(bytes.before)} before, ${p.levels ? 'at most ' : ''}${bytesText(bytes.after)} after (${share(bytes.after, bytes.before)}), at most ${bytesText(bytes.peak)} on the way`,
    ],
    ['in other forms', others(p)],
    ...(bytes.layerStates === 0
      ? []
      : [['states', `${bytesText(bytes.layerStates)}, of layers that keep no slots, whatever the length`] as const]),
    [
      'also held',
      `last queries ${bytesText(bytes.rings)}, sums of attention ${bytesText(bytes.statistics)}, numbers of pieces ${bytesText(bytes.pieceNumbers)}${bytes.decoded === 0 ? '' : `, a layer as pieces read it ${bytesText(bytes.decoded)}`}`,
    ],
    [
      'prefill',
      `${countText(work.prefill)} multiply-adds, and ${countText(work.passes)} (${share(work.passes, work.prefill)}) for the extra passes`,
    ],
    ['one token', `${countText(work.tokenAfter)} multiply-adds instead of ${countText(work.tokenBefore)}`],
    ...(p.views === undefined ? [] : [['it reads', viewsText(p.views)] as const]),
    p.device ? ['on a GPU, f32', gpuText(p.device)] : ['on a GPU', `not: ${p.onDevice}`],
    ['eviction', calls === 0 ? 'none' : `${calls} tensor operations over all layers (--json has them by name)`],
  ];
  return wrapColumns(
    rows.map(([name, text]) => [pc.dim(name), text]),
    width,
  );
}

/** Describes the shares of the kept slots at each level. */
const sharesText = (shares: LevelShares): string =>
  LEVELS.flatMap((level) =>
    (shares[level] ?? 0) > 0 ? [`${Number((100 * shares[level]!).toFixed(1))} % ${level}`] : [],
  ).join(', ') || 'as it decides in a run';

/** Describes what the cache takes before and after the eviction in each form that is not the prediction's. */
const others = ({ otherForms }: Prediction): string =>
  otherForms
    .map(
      ({ form, before, after }) =>
        `${form} ${bytesText(before)} and ${after === null ? 'too few slots' : bytesText(after)}`,
    )
    .join(', ');

/** Describes what a token reads under views. */
const viewsText = (views: Required<Prediction>['views']): string =>
  views === null
    ? 'what its views show, which is counted in a run'
    : `keys and values of ${countText(views.slots)} of ${countText(views.of)} slots, over all layers and query heads${views.numbers === 0 ? '' : `, and at most ${countText(views.numbers)} numbers to choose them`}: ${bytesText(views.bytes)}`;

/** Describes what score, selection and compaction cost relative to prefill, and running sums relative to a token. */
function gpuText({ score, select, compact, shares, sums }: DeviceCost): string {
  const percent = (x: number): string => `${(100 * x).toPrecision(2)} %`,
    dispatches = score.dispatches + select.dispatches + compact.dispatches;
  const event =
    dispatches === 0
      ? 'no eviction'
      : `the eviction takes ${dispatches} dispatches, ${percent(shares.operations)} of the operations of prefill and ${percent(shares.bytes)} of its bytes`;
  return sums === undefined
    ? event
    : `${event}; running sums of ${sums.rows} heads move ${percent(sums.waits)} of the bytes of keys and values a token, ${percent(sums.follows)} where an eviction follows each`;
}

/** Formats one number if all heads have the same budget, else one per layer. */
function slotsText(budgets: Prediction['budgets'], length: number): string {
  const all = new Set(budgets.flat());
  if (all.size === 1) return `${[...all][0]} of ${length} in every layer and KV head`;
  return `of ${length}, by layer: ${budgets.map((heads) => (new Set(heads).size === 1 ? heads[0] : heads.join('/'))).join(', ')}`;
}
