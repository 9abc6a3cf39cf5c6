import { evidenceLevel } from '@kv/evaluation';
import { percent } from '@kv/evaluation/shared';
import type { Outcome } from './outcome.ts';
import type { Study } from './study.ts';
import { armKey, isPlanned, metrics } from './types.ts';
import type { Contrast, Kind, Planned, Row } from './types.ts';
import { powerOfRow } from './power.ts';
import type { ArmMean, Measured } from './verdict.ts';

const number = (value: number): string =>
  value === 0 || Math.abs(value) >= 0.001 ? String(Number(value.toPrecision(3))) : value.toExponential(1);
const signed = (value: number): string => `${value < 0 ? '' : '+'}${number(value)}`;
/** Formats a difference; of shares in points. */
const inUnits = ({ contrast: { metric } }: Measured, value: number): string =>
  signed(metrics[metric].share ? 100 * value : value);
const unit = ({ contrast: { metric } }: Measured): string => (metrics[metric].share ? ' points' : '');
export const gain = (measured: Measured): string => {
  const [difference, low, high] = [measured.difference, measured.low, measured.high].map((x) => inUnits(measured, x));
  return `${difference}${unit(measured)} [${low}, ${high}]`;
};
const arm = ({ metric }: Contrast, { arm, mean, slots }: ArmMean): string =>
  `${armKey(arm)} ${metrics[metric].share ? percent(mean, 1) : number(mean)}${slots === undefined ? '' : ` (${slots.toFixed(0)} slots)`}`;
/** Describes what a contrast promises, against another arm or a number. */
export function wanted({ metric, b, threshold, direction }: Contrast, than = ''): string {
  const { better, share, log } = metrics[metric],
    [promised, other] = direction === 'worse' ? ['worse', 'better'] : ['better', 'worse'],
    size = Math.abs(threshold),
    amount = share ? `${number(100 * size)} points` : log ? percent(Math.exp(size) - 1) : number(size);
  if (!b)
    return `${(better === 'higher') === (direction === undefined) ? 'higher' : 'lower'} than ${number(threshold)}`;
  if (threshold === 0) return `${promised}${than}`;
  return threshold > 0
    ? `${promised}${than} by more than ${amount}`
    : `${promised}${than}, or ${other} by less than ${amount}`;
}

/** Describes one contrast in a line: both arms, the difference with its interval, and what was promised. */
function contrastText(measured: Measured): string {
  const { contrast, a, b, p, n, verdict, because } = measured;
  const against = b ? ` against ${arm(contrast, b)}` : '',
    chance = p === undefined ? '' : `, p ${p < 0.001 ? '< .001' : p.toFixed(3)}`;
  return `${contrast.task}, ${metrics[contrast.metric].says}: ${arm(contrast, a)}${against}; ${gain(measured)}${chance}, n ${n} (${evidenceLevel(n)}); wanted: ${wanted(contrast)}: ${verdict}${because === undefined ? '' : ` (${because})`}`;
}

/** Summarizes the measurements: every difference, or the least and greatest of many. */
function shortly({ measured, because = '' }: Outcome): string {
  if (measured.length === 0) return because;
  if (measured.length <= 3) return measured.map(gain).join('; ');
  const ordered = [...measured].sort((a, b) => a.difference - b.difference),
    said = [ordered[0], ordered[ordered.length - 1]].map((one) => `${inUnits(one, one.difference)}${unit(one)}`),
    count = (of: string): number => measured.filter(({ verdict }) => verdict === of).length;
  return `${said.join(' to ')}; ${count('held')} of ${measured.length} held, ${count('not')} not`;
}

/** Returns the cells of a row in a table: promise, measured, prompts, verdict. */
export const outcomeCells = (outcome: Outcome): readonly string[] => [
  outcome.row.promise,
  shortly(outcome),
  `${outcome.n}, ${evidenceLevel(outcome.n)}`,
  outcome.verdict,
];

function details({ row, verdict, measured, full, because }: Outcome): string {
  const tasks = Object.entries(full).map(([task, mean]) => `${task} ${number(mean)}`),
    pointing = measured.filter(({ difference }) => difference > 0).length;
  const lines =
    row.rule === 'signs'
      ? `${pointing} of ${measured.length} differences above point as promised.`
      : measured.map((one) => `- ${contrastText(one)}`).join('\n');
  return `### ${row.id}: ${verdict}

${row.claim}. ${row.differs}.${tasks.length === 0 ? '' : ` Full cache: ${tasks.join(', ')}.`}

${lines}${because === undefined ? '' : `\n${because}`}`;
}

/** Returns the line of a table in Markdown. */
export const tableLine = (cells: readonly string[]): string =>
  `| ${cells.map((cell) => cell.replaceAll('|', '\\|')).join(' | ')} |`;

/** Formats the study as a Markdown page: one table, then every contrast. `command` is what made it. */
export function studyMarkdown(study: Study, command: string): string {
  const { date, plan, model, weights, engine, seed, label, seconds, outcomes, excused, left } = study;
  const rows = outcomes.map((outcome) => tableLine([outcome.row.paper, outcome.row.claim, ...outcomeCells(outcome)]));
  return `# What each paper promised, on ${model}

\`${command}\`, ${date}, ${Math.round(seconds / 60)} minutes of its threads, ${engine}, weights ${weights}, seed ${seed}, plan ${plan}.${label === undefined ? '' : ` **${label}.**`}

"Better by" is the mean paired difference in the promised direction with its percentile bootstrap over prompts (10,000 resamples, Bonferroni over the contrasts of a row). Fewer than 200 prompts are a screening, whatever the row says. Held: the whole interval lies above the threshold of the plan. Not: the whole of it lies below.
Undecided: neither, or the task cannot tell (no prompt tells the arms apart, both arms at most 5 % or at least 95 %, the full cache below what the plan asks of it, mean caches over decoding more than 5 % apart).

| paper | claim | promise | measured: better by | n | outcome |
| --- | --- | --- | --- | --- | --- |
${rows.join('\n')}

Not run:

${[...excused.map(({ claim, excuse }) => `- ${claim}: ${excuse}.`), ...left.map((id) => `- ${id}: not asked for by this command.`)].join('\n')}

## Every contrast

${outcomes.map(details).join('\n\n')}
`;
}

function powerText(row: Planned, kind: Kind): string {
  const power = powerOfRow(row, kind);
  return power === undefined ? '' : `, power ${power.toFixed(2)}`;
}

/** Describes what a plan asks of a row, or why it does not; `on` is the only kind of model that the plan is for. */
export function rowText(row: Row, on?: Kind): string {
  const head = `${row.paper}: ${row.claim}${row.table === undefined ? '' : ` (${row.table})`}\n  promise: ${row.promise}\n`;
  if (!isPlanned(row)) return `${head}  not run: ${row.excuse}`;
  const { n, differs, contrasts } = row,
    lines = contrasts.map((contrast) => {
      const { task, metric, a, b, on: only } = contrast;
      return `  ${task}: ${metrics[metric].says} of ${armKey(a)} ${wanted(contrast, b && ` than ${armKey(b)}`)}${only === undefined ? '' : ` (${only})`}`;
    });
  const [embedded, real] = (['embedded', 'real'] as const).map((kind) => `${n[kind]}${powerText(row, kind)}`);
  return `${head}  n ${on === undefined ? `${embedded} (${real} on a checkpoint)` : { embedded, real }[on]}; ${differs}\n${lines.join('\n')}`;
}
