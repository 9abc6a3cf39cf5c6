import { basename } from 'node:path';
import { KvError } from '@kv/core';
import { didYouMean } from '@kv/core/engine';
import { heldOutBook, sentencesOf } from '@kv/tasks';
import type { Experiment, PolicyNaming, Subject } from '@kv/evaluation';
import { digest, filesOf, sum } from '@kv/evaluation/shared';
import { carried } from './carries.ts';
import { contrastsOf, jobsOf, known, policiesOf, policyOf } from './jobs.ts';
import type { PaperJob, PaperResult } from './jobs.ts';
import { outcomeOf } from './outcome.ts';
import type { Outcome } from './outcome.ts';
import { isPlanned, kindOf } from './types.ts';
import type { Excused, Paper, Plan, Row } from './types.ts';
import { proseOf } from './windows.ts';
import type { PaperWork } from './work.ts';

/** Which part of a plan to run, and how. */
export interface StudyOptions extends PolicyNaming {
  /** @defaultValue all */
  readonly papers?: readonly Paper[] | undefined;
  /** Ids of rows. @defaultValue all */
  readonly rows?: readonly string[] | undefined;
  /** Number of prompts of every task. @defaultValue the plan's */
  readonly n?: number | undefined;
  /** A seed other than the plan's is for development. @defaultValue the plan's */
  readonly seed?: number | undefined;
  /** Text that prose is taken from. @defaultValue the bundled book */
  readonly text?: string | undefined;
}

/** The result of a plan. */
export interface Study {
  readonly date: string;
  /** Digest of the plan. */
  readonly plan: string;
  readonly model: string;
  readonly weights: string;
  readonly engine: string;
  readonly seed: number;
  /** Digest of the text that prose was taken from, if it is not the bundled book. */
  readonly text?: string;
  /** The code that produced the results, and files stored with the model that policies read. */
  readonly code: readonly string[];
  /** Why these are not the plan's own results; absent if they are. */
  readonly label?: string;
  /** Seconds of all threads together. */
  readonly seconds: number;
  readonly outcomes: readonly Outcome[];
  readonly excused: readonly Excused[];
  /** Ids of the plan's rows that were not asked for. */
  readonly left: readonly string[];
}

/** Returns the rows that are asked for. @throws KvError for one that the plan does not have */
export function rowsOf(plan: Plan, { rows, papers }: Pick<StudyOptions, 'rows' | 'papers'>): readonly Row[] {
  const ids = plan.rows.map(({ id }) => id),
    unknown = rows?.find((id) => !ids.includes(id));
  if (unknown !== undefined)
    throw new KvError('row', `expected a row of the plan${didYouMean(unknown, ids)}, got '${unknown}'`);
  return plan.rows.filter(({ id, paper }) => (rows?.includes(id) ?? true) && (papers?.includes(paper) ?? true));
}

/**
 * Builds the experiment of a plan on a model; excuses rows that its context, tokenizer or stored files cannot carry.
 * @throws KvError in one sentence
 */
export async function paperStudy(
  subject: Subject,
  plan: Plan,
  options: StudyOptions = {},
): Promise<Experiment<PaperJob, PaperResult, Study, PaperWork>> {
  const { n, seed = plan.seed, text, names, code } = options,
    kind = kindOf(subject),
    policies = await Promise.all([...new Set(policiesOf(plan))].map((text) => policyOf(text, names))),
    settings = {
      weights: subject.fingerprint,
      engine: subject.engine,
      seed,
      ...(text !== undefined && { text: digest({ text }) }),
      code: [...((await code?.(policiesOf(plan))) ?? []), ...(await filesOf(policies, subject))],
    },
    book = await heldOutBook(),
    carrier = {
      subject,
      sentences: sentencesOf(book),
      prose: proseOf(text ?? book, subject.tokenizer, plan, seed).length,
      names,
    },
    rows = await carried(rowsOf(plan, options), plan, carrier, n),
    planned = rows.filter(isPlanned);
  const label =
    seed !== plan.seed
      ? "development: not the plan's prompts"
      : n === undefined
        ? undefined
        : `${n} prompts, not the plan's number`;
  return {
    name: 'papers',
    settings,
    work: { kind: 'papers', plan, seed, embedded: kind === 'embedded', ...(text !== undefined && { text }) },
    left: (results) => jobsOf(plan, planned, kind, n, known(results, plan)),
    conclude(results) {
      const all = known(results, plan),
        tasks = new Set(planned.flatMap((row) => contrastsOf(row, kind).map(({ task }) => task)));
      return {
        date: new Date().toISOString().slice(0, 10),
        plan: digest(plan),
        model: basename(subject.name),
        ...settings,
        ...(label !== undefined && { label }),
        seconds: sum(results.filter(({ task }) => tasks.has(task)).map(({ seconds }) => seconds)),
        outcomes: planned.map((row) => outcomeOf(row, kind, n, all, plan.able)),
        excused: rows.filter((row): row is Excused => !isPlanned(row)),
        left: plan.rows.map(({ id }) => id).filter((id) => rows.every((row) => row.id !== id)),
      };
    },
  };
}
