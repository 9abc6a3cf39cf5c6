import { readdirSync, readFileSync } from 'node:fs';
import { evidenceLevel } from '@kv/evaluation';
import { digest } from '@kv/evaluation/shared';
import { gain, tableLine, wanted } from './markdown.ts';
import { planNames, planOf } from './plans.ts';
import { isPlanned, kindOf, metrics, paperNames } from './types.ts';
import type { Arm, Paper, Plan, Planned, Row, Task } from './types.ts';
import { alike, decide, ruled } from './verdict.ts';
import type { Measured, Verdict } from './verdict.ts';

/** A row of a plan that a later one asks fairly, or that should not have been asked. */
interface Superseded {
  /** As `plan:row`. */
  readonly rows: readonly string[];
  readonly by?: string;
  readonly because: string;
}
/** What a later reading says of rows that stay: a claim in words that fit what was asked, or a remark. */
interface Reading {
  readonly rows: readonly string[];
  /** Replaces the claim of the plan, whose text does not change. */
  readonly claim?: string;
  readonly says?: string;
}
/** A claim of which no plan has a row: another study or count answers it, or nothing here can. */
type Elsewhere = { readonly paper: Paper; readonly claim: string; readonly promise: string } & (
  | { readonly excuse: string }
  | Found
);
/** What another study found. */
interface Found {
  readonly asked: string;
  readonly wanted: string;
  /** File of the repository that holds `quote`. */
  readonly file: string;
  readonly quote: string;
  readonly measured: string;
  /** 0 where it is counted, not sampled. */
  readonly n: number;
  readonly verdict: Verdict;
}
/** Results of a plan on a model, as they are stored. */
interface Stored {
  readonly plan: string;
  readonly model: string;
  readonly outcomes: readonly {
    readonly row: string;
    readonly n: number;
    readonly measured: readonly Measured[];
    readonly full?: Readonly<Record<string, number>>;
    readonly because?: string;
  }[];
  readonly excused: readonly { readonly id: string; readonly excuse: string }[];
}
interface Answered {
  readonly model: string;
  readonly n: number;
  readonly measured: readonly Measured[];
  readonly verdict: Verdict;
}
/** A row with what came out of it, by model. */
interface Claim {
  /** `plan:row`. */
  readonly name: string;
  readonly row: Row;
  readonly tasks: Plan['tasks'];
  readonly answers: readonly Answered[];
  /** Why no model was asked, if none was. */
  readonly excuse?: string;
  readonly reading: Reading | undefined;
}

/** Share of right answers of the full cache below which no answer counts, whatever an early plan asked of it. */
const ABLE = 0.8;

/** Folder of plans and results, relative to this file or to the bundle. */
const FOLDER = new URL(import.meta.url.endsWith('.ts') ? '..' : '../papers/', import.meta.url);
const read = <T>(name: string): T => JSON.parse(readFileSync(new URL(name, FOLDER), 'utf8')) as T;

/**
 * Returns a contrast with the verdict of today's rule: by its interval alone, and undecided where something keeps it from
 * telling or the interval touches the threshold. Shares of which no prompt differs have the interval of `alike`.
 *
 * @param contrasts of its row
 */
export function judged(one: Measured, contrasts: number): Measured {
  const { contrast, n, low, high, because } = one,
    same = low === 0 && high === 0,
    interval = same && metrics[contrast.metric].share ? alike(n, 1 - 0.05 / contrasts) : { low, high },
    told = because === undefined && !(same && !metrics[contrast.metric].share);
  return { ...one, ...interval, verdict: told ? decide(interval, contrast.b ? contrast.threshold : 0) : 'undecided' };
}
const answered = (row: Planned, model: string, { n, measured, full = {} }: Stored['outcomes'][number]): Answered => {
  const able = ({ contrast: { task, metric } }: Measured): boolean => metric !== 'hit' || (full[task] ?? 1) >= ABLE,
    all = measured.map((one) =>
      judged(able(one) ? one : { ...one, because: 'the full cache itself fails' }, measured.length),
    );
  return { model, n, measured: all, verdict: ruled(row.rule, all) };
};

/** Returns every row of the plans with its results. */
function claims(readings: readonly Reading[]): readonly Claim[] {
  const stored = readdirSync(FOLDER)
    .filter((file) => /^results-.*\.json$/.test(file))
    .sort()
    .map((file) => read<Stored>(file));
  return planNames.flatMap((of) => {
    const plan = planOf(of),
      { rows, tasks } = plan,
      own = stored.filter((one) => one.plan === digest(plan));
    return rows.map((row) => {
      const name = `${of}:${row.id}`;
      const outcomes = own.flatMap(({ model, outcomes: all }) =>
        all.filter((outcome) => outcome.row === row.id).map((outcome) => ({ model, outcome })),
      );
      const answers = isPlanned(row) ? outcomes.map(({ model, outcome }) => answered(row, model, outcome)) : [],
        why = isPlanned(row)
          ? [
              ...own.flatMap(({ excused }) => excused.filter(({ id }) => id === row.id).map(({ excuse }) => excuse)),
              ...outcomes.flatMap(({ outcome }) => outcome.because ?? []),
            ]
          : [row.excuse];
      const asked = answers.filter(({ measured }) => measured.length > 0);
      return {
        ...{ name, row, tasks, reading: readings.find(({ rows: read }) => read.includes(name)) },
        answers: asked,
        ...(asked.length === 0 && { excuse: why[0] ?? 'not run yet' }),
      };
    });
  });
}

/** What a task asks, in a few words. */
function bed(task: Task): string {
  switch (task.kind) {
    case 'needle': {
      const hidden = task.form === 'code' ? 'a code of 8 characters' : `a number of ${task.digits ?? 7} digits`,
        among =
          task.distractors === undefined
            ? ''
            : task.distractors === 1
              ? ' and another'
              : ` among ${task.distractors} others`;
      return `${hidden}${among} in ${task.tokens} tokens of ${task.filler ? 'repeated filler' : 'a novel'}, asked ${task.mode === 'aware' ? 'before' : 'after'} the eviction`;
    }
    case 'association':
      return `a fact ${task.depth ? `at ${100 * task.depth} %` : 'at the start'} and its mentions in ${task.tokens} tokens of repeated filler, asked ${task.mode === 'aware' ? 'before' : 'after'} the eviction`;
    case 'credential':
      return `${task.values === 1 ? 'a credential' : 'three credentials'} in ${task.tokens} tokens, asked by a tool call`;
    case 'generated':
      return `${task.task}, ${task.tokens} tokens`;
    case 'continuation':
      return `the ${task.follow} tokens after ${task.context} of a novel`;
    case 'prompt':
      return `every token of ${task.tokens} of a novel`;
    case 'ranks':
      return `ranks of the slots of ${task.tokens} tokens`;
    default:
      return `costs of ${task.tokens} tokens`;
  }
}
const once = (texts: readonly string[]): string => [...new Set(texts)].join('; ');
const budgets = (arms: readonly Arm[]): string => {
  const own = [...new Set(arms.flatMap(({ budget }) => (budget === undefined ? [] : [String(budget)])))];
  return own.length === 0 ? '' : `, budget ${own.map((of) => (of.endsWith('%') ? of : `${of} slots`)).join(', ')}`;
};
/** Policies of some arms, each once; of more than four their number. */
const policies = (arms: readonly Arm[]): string => {
  const texts = [...new Set(arms.map(({ policy }) => `\`${policy}\``))];
  return texts.length > 4 ? `${texts.length} policies` : texts.join(', ');
};
/** What was asked of a model: policies, bed, budgets, and how it differs from the paper. */
const asking = ({ row, tasks, reading }: Claim, { measured }: Answered): string => {
  const contrasts = measured.map(({ contrast }) => contrast),
    rivals = contrasts.flatMap(({ b }) => b ?? []),
    arms = [...contrasts.map(({ a }) => a), ...rivals],
    who = `${policies(contrasts.map(({ a }) => a))}${rivals.length > 0 ? ` against ${policies(rivals)}` : ''}`;
  return `${who}. On ${once(contrasts.map(({ task }) => bed(tasks[task])))}${budgets(arms)}: ${isPlanned(row) ? row.differs : ''}${reading?.says === undefined ? '' : `. Read later: ${reading.says}`}`;
};
/** What its contrasts must show for it to hold. */
const bar = ({ row }: Claim, { measured }: Answered): string =>
  isPlanned(row) && row.rule === 'signs'
    ? 'every difference in the promised direction'
    : once(measured.map(({ contrast }) => `${metrics[contrast.metric].says}: ${wanted(contrast)}`));

/** Every difference, or the least and the greatest of many. */
function measuredText({ measured }: Answered): string {
  if (measured.length <= 3) return measured.map(gain).join('; ');
  const ordered = [...measured].sort((a, b) => a.difference - b.difference),
    count = (of: Verdict): number => measured.filter(({ verdict }) => verdict === of).length;
  return `${gain(ordered[0])} to ${gain(ordered.at(-1)!)}; ${count('held')} of ${measured.length} held, ${count('not')} not`;
}
/** What a model is called in the tables. */
const short = (model: string): string => (kindOf({ name: model }) === 'embedded' ? 'embedded' : model.split('.')[0]);

function lines(claim: Claim): readonly string[] {
  const { name, row, answers, excuse, reading } = claim,
    head = [`${reading?.claim ?? row.claim}${row.table === undefined ? '' : ` (${row.table})`}`, row.promise];
  if (excuse !== undefined) return [tableLine([...head, `not asked: ${excuse}`, '', name, '', '', ''])];
  return answers.map((answer) =>
    tableLine([
      ...head,
      asking(claim, answer),
      bar(claim, answer),
      `${short(answer.model)}, ${name}`,
      measuredText(answer),
      `${answer.n}, ${evidenceLevel(answer.n)}`,
      answer.verdict,
    ]),
  );
}

const elsewhereLine = (one: Elsewhere): string => {
  const { claim, promise } = one;
  if ('excuse' in one) return tableLine([claim, promise, `not asked: ${one.excuse}`, '', '', '', '', '']);
  const { asked, wanted: takes, file, quote, measured, n, verdict } = one;
  if (!readFileSync(new URL(`../../${file}`, FOLDER), 'utf8').includes(quote))
    throw new Error(`elsewhere.json: ${file} does not say '${quote}'`);
  return tableLine([
    ...[claim, promise, asked, takes, `[${file}](../../${file})`, measured],
    ...(n === 0 ? ['counted'] : [`${n}, ${evidenceLevel(n)}`]),
    verdict,
  ]);
};

/** Puts rows of one claim together, in the order in which claims were first asked. */
function byClaim(all: readonly Claim[]): readonly Claim[] {
  const order = [...new Set(all.map(({ row }) => row.claim))];
  return [...all].sort((a, b) => order.indexOf(a.row.claim) - order.indexOf(b.row.claim));
}

/** Returns the table of all claims of the papers, and that of the rows which others replace. */
export function claimsMarkdown(): { readonly claims: string; readonly superseded: string } {
  const readings = read<readonly Reading[]>('readings.json'),
    all = claims(readings),
    replaced = read<readonly Superseded[]>('superseded.json'),
    elsewhere = read<readonly Elsewhere[]>('elsewhere.json'),
    gone = new Set(replaced.flatMap(({ rows }) => rows)),
    // a row that was asked later is no longer excused
    asked = new Set(all.filter(({ excuse }) => excuse === undefined).map(({ row }) => row.claim)),
    stays = all.filter((one) => !gone.has(one.name) && (one.excuse === undefined || !asked.has(one.row.claim)));
  const table = (of: readonly Claim[], others: readonly Elsewhere[] = []): string => {
    const rows = [...new Set(of.flatMap(lines)), ...others.map(elsewhereLine)];
    return `| claim | the paper | asked here | holds where | model, row | measured: better by | n | verdict |\n| --- | --- | --- | --- | --- | --- | --- | --- |\n${rows.join('\n')}`;
  };
  const verdicts: readonly Pick<Answered, 'verdict' | 'n'>[] = [
      ...stays.flatMap(({ answers }) => answers),
      ...elsewhere.flatMap((one) => ('excuse' in one ? [] : [one])),
    ],
    tally = (['held', 'not', 'undecided'] as const).map((of) => {
      const some = verdicts.filter(({ verdict }) => verdict === of),
        sure = some.filter(({ n }) => evidenceLevel(n) === 'verdict').length;
      return `${some.length} ${of} (${sure} of them of 200 prompts or more)`;
    });
  const told = readings.flatMap(({ rows }) => rows),
    unknown = [...gone, ...told, ...replaced.flatMap(({ by }) => by ?? [])].filter(
      (id) => !all.some(({ name }) => name === id),
    );
  if (unknown.length > 0) throw new Error(`superseded.json, readings.json: no plan has the row ${unknown.join(', ')}`);
  return {
    claims: `# Every claim of the five papers

\`npm run -s study -- papers/claims\` makes this page from the plans and their results. A verdict goes by the interval alone (percentile bootstrap over prompts, Bonferroni over the contrasts of a row): held where all of it lies above the threshold, not where all of it lies below, undecided where it touches it, where mean caches differ by more than 5 %, where both arms are right or wrong nearly always, or where the full cache answers fewer than 80 %. Of shares that no prompt tells apart the interval is what so large a sample leaves open. Differences are in the promised direction, so that where worse is promised +8 is worse by 8, and over the threshold where no rival is named; a row holds if all its contrasts do, and does not if one does not. "Holds where" is what the plan asked of every contrast, and "asked here" ends with how that differs from the paper; "Read later" is what a reading against the paper found after the run. Fewer than 200 prompts are a screening. Rows that were asked unfairly are in [superseded.md](superseded.md), with the reason. Of ${verdicts.length} rows here: ${tally.join(', ')}.

${paperNames
  .map(
    (paper) =>
      `## ${paper}\n\n${table(
        byClaim(stays.filter(({ row }) => row.paper === paper)),
        elsewhere.filter((one) => one.paper === paper),
      )}`,
  )
  .join('\n\n')}
`,
    superseded: `# Rows that are superseded

Rows of plans whose setting was not the paper's, whose bed could not tell, or whose counter was wrong. What came out stands as it was; no verdict of these counts. \`npm run -s study -- papers/claims\` makes this page.

${replaced
  .map(
    ({ rows, by, because }) =>
      `## ${rows.join(', ')}\n\n${by === undefined ? 'Not asked again' : `Asked again as ${by}`}: ${because}.\n\n${table(all.filter(({ name }) => rows.includes(name)))}`,
  )
  .join('\n\n')}
`,
  };
}
