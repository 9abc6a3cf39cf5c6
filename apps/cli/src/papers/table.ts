import { colors as pc } from '../colors.ts';
import { columns } from '../columns.ts';
import { percent } from '../needle/table.ts';
import { armKey } from './arms.ts';
import type { Outcome } from './outcome.ts';
import { isPlanned, METRICS } from './types.ts';
import type { Contrast, Excused, Kind, Row } from './types.ts';
import type { ArmMean, Measured, Verdict } from './verdict.ts';

/** Everything that a printed or written report says. */
export interface Study {
  readonly command: string;
  readonly date: string;
  readonly plan: string;
  readonly model: string;
  readonly weights: string;
  readonly engine: string;
  readonly seed: number;
  /** Why these are not the plan's own results; absent where they are. */
  readonly label?: string;
  /** Of all threads together. */
  readonly seconds: number;
  readonly outcomes: readonly Outcome[];
  readonly excused: readonly Excused[];
  /** Ids of the plan's rows that were not asked for. */
  readonly left: readonly string[];
}

const number = (value: number): string =>
  value === 0 || Math.abs(value) >= 0.001 ? String(Number(value.toPrecision(3))) : value.toExponential(1);
const signed = (value: number): string => `${value < 0 ? '' : '+'}${number(value)}`;
const arm = ({ contrast }: Measured, { arm: { policy, budget }, mean, slots }: ArmMean): string =>
  `${policy}${budget === undefined ? '' : ` @ ${budget}`} ${METRICS[contrast.metric].share ? percent(mean, 1) : number(mean)}${slots === undefined ? '' : ` (${slots.toFixed(0)} slots)`}`;

/** One contrast in a line: both arms, the difference with its interval, what was asked of it. */
function contrastText(measured: Measured): string {
  const {
    contrast: { task, metric, threshold, direction },
    a,
    b,
    difference,
    low,
    high,
    p,
    n,
    verdict,
    because,
  } = measured;
  const against = b ? ` against ${arm(measured, b)}` : '',
    wanted = b
      ? `${direction === 'worse' ? 'worse' : 'better'} by more than ${number(threshold)}`
      : `${METRICS[metric].better} than ${number(threshold)}`;
  return `${task}, ${METRICS[metric].says}: ${arm(measured, a)}${against}; ${signed(difference)} [${signed(low)}, ${signed(high)}]${p === undefined ? '' : `, p ${p < 0.001 ? '< .001' : p.toFixed(3)}`}, n ${n}; wanted: ${wanted}: ${verdict}${because === undefined ? '' : ` (${because})`}`;
}

/** What was measured, short: every difference, or the least and greatest of many. */
function shortly({ measured, because }: Outcome): string {
  if (measured.length === 0) return because ?? '';
  const differences = measured.map(
    ({ difference, low, high }) => `${signed(difference)} [${signed(low)}, ${signed(high)}]`,
  );
  if (measured.length <= 3) return differences.join('; ');
  const by = [...measured].sort((x, y) => x.difference - y.difference),
    held = measured.filter(({ verdict }) => verdict === 'held').length,
    not = measured.filter(({ verdict }) => verdict === 'not').length;
  return `${signed(by[0].difference)} to ${signed(by.at(-1)!.difference)}; ${held} of ${measured.length} held, ${not} not`;
}

const tints: Readonly<Record<Verdict, (text: string) => string>> = {
  held: pc.green,
  not: pc.red,
  undecided: pc.yellow,
};

/** The study for a terminal. */
export function terminalTable({ outcomes, excused, label }: Study): string {
  const rows = outcomes.map((outcome) => [
    outcome.row.id,
    outcome.row.promise,
    shortly(outcome),
    String(outcome.n),
    tints[outcome.verdict](outcome.verdict),
  ]);
  const lines = columns([['row', 'promise', 'measured: better by', 'n', 'verdict'].map(pc.dim), ...rows], new Set([3]));
  const without = excused.map(({ id, excuse }) => `${id}: ${excuse}`).join('\n');
  return `${label === undefined ? '' : `${pc.yellow(label)}\n`}${lines}${without === '' ? '' : `\n\n${pc.dim(`not run\n${without}`)}`}`;
}

/** The study as a Markdown page: one table, then every contrast. */
export function markdown(study: Study): string {
  const { command, date, plan, model, weights, engine, seed, label, seconds, outcomes, excused, left } = study;
  const cell = (text: string): string => text.replaceAll('|', '\\|');
  const rows = outcomes.map(
    (outcome) =>
      `| ${[outcome.row.paper, cell(outcome.row.claim), cell(outcome.row.promise), shortly(outcome), String(outcome.n), outcome.verdict].join(' | ')} |`,
  );
  const details = outcomes.map((outcome) => {
    const full = Object.entries(outcome.full)
      .map(([task, mean]) => `${task} ${number(mean)}`)
      .join(', ');
    return `### ${outcome.row.id}: ${outcome.verdict}\n\n${outcome.row.claim}. ${outcome.row.differs}.${full === '' ? '' : ` Full cache: ${full}.`}\n\n${outcome.row.rule === 'signs' ? `${outcome.measured.filter(({ difference }) => difference > 0).length} of ${outcome.measured.length} differences above point as promised.` : outcome.measured.map((one) => `- ${contrastText(one)}`).join('\n')}${outcome.because === undefined ? '' : `\n${outcome.because}`}`;
  });
  return `# What each paper promised, on ${model}

\`${command}\`, ${date}, ${Math.round(seconds / 60)} minutes of its threads, ${engine}, weights ${weights}, seed ${seed}, plan ${plan}.${label === undefined ? '' : ` **${label}.**`}

"Better by" is the mean paired difference in the promised direction with its percentile bootstrap over prompts (10,000 resamples, Bonferroni over the contrasts of a row). Held: the whole interval lies above the threshold of the plan. Not: none of it does.
Undecided: neither, or the task cannot tell (both arms at most 5 % or at least 95 %, the full cache below 50 %, mean caches over decoding more than 5 % apart).

| paper | claim | promise | measured: better by | n | verdict |
| --- | --- | --- | --- | --- | --- |
${rows.join('\n')}

Not run:

${[...excused.map(({ claim, excuse }) => `- ${claim}: ${excuse}.`), ...left.map((id) => `- ${id}: not asked for by this command.`)].join('\n')}

## Every contrast

${details.join('\n\n')}
`;
}

const wants = ({ task, metric, a, b, threshold, direction, on }: Contrast): string =>
  `${task}: ${METRICS[metric].says} of ${armKey(a)} ${b ? `${direction === 'worse' ? 'worse' : 'better'} than ${armKey(b)} by more than ${number(threshold)}` : `${METRICS[metric].better} than ${number(threshold)}`}${on === undefined ? '' : ` (${on})`}`;

/** The plan for a terminal. */
export const planText = (rows: readonly Row[], on?: Kind): string =>
  rows
    .map(
      (row) =>
        `${pc.bold(row.id)}  ${row.paper}: ${row.claim}\n  promise: ${row.promise}\n${
          isPlanned(row)
            ? `  n ${on === undefined ? `${row.n.embedded} (${row.n.real} on a checkpoint)` : row.n[on]}; ${row.differs}\n${row.contrasts.map((contrast) => `  ${wants(contrast)}`).join('\n')}`
            : `  not run: ${row.excuse}`
        }`,
    )
    .join('\n\n');
