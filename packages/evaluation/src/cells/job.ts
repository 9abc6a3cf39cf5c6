import { KvError } from '@kv/core';
import { graderNames } from '@kv/tasks';
import type { Problem } from '@kv/tasks';
import Type from 'typebox';
import { checkShape } from '../files/check-shape.ts';
import type { OwnWork } from '../jobs/experiment.ts';
import type { Runner } from '../jobs/run-pool.ts';
import { digest } from '../jobs/store.ts';
import type { PolicyNaming } from '../policies.ts';
import type { Subject } from '../subject.ts';
import { checkFits } from './experiment.ts';
import { problemsOf } from './run-cell.ts';
import { GenerationSchema, cellId, cellResult, CELLS, isFileBudget, OneBudget, OneCache } from './types.ts';
import type { CellOutcome, Cell, CellResult, GenerationOptions } from './types.ts';

/** A cell with everything that a worker needs in addition to its model and pieces. It names no file and no address. */
export interface CellJob {
  readonly format: 1;
  readonly cell: Cell;
  readonly problem: Problem;
  readonly generation: GenerationOptions;
  /** The code that must produce the result: packages with their versions and digests of their files. */
  readonly code: readonly string[];
}

const text = Type.String(),
  whole = Type.Integer({ minimum: 0 }),
  amount = Type.Number({ minimum: 0 }),
  closed = { additionalProperties: false };

const Job = Type.Object(
  {
    format: Type.Literal(1),
    cell: Type.Object(
      {
        task: text,
        problem: text,
        policy: text,
        budget: Type.Optional(OneBudget),
        cache: Type.Optional(OneCache),
        seed: whole,
      },
      closed,
    ),
    problem: Type.Object(
      {
        id: text,
        document: Type.Optional(text),
        context: text,
        question: text,
        answers: Type.Array(text),
        grader: Type.Union(graderNames.map((name) => Type.Literal(name))),
        maxNewTokens: Type.Integer({ minimum: 1, maximum: 65_536 }),
        stop: Type.Optional(Type.Array(Type.String({ minLength: 1 }))),
        classes: Type.Optional(Type.Array(text)),
      },
      closed,
    ),
    generation: GenerationSchema,
    code: Type.Array(text),
  },
  closed,
);

const Extent = Type.Object({ mean: amount, peak: amount }),
  share = Type.Optional(Type.Number({ minimum: 0, maximum: 1 }));
/** The part of a result that does not follow from the cell and its problem. */
const CameShape = Type.Object({
  answer: text,
  tokens: whole,
  slots: Extent,
  bytes: Extent,
  evidence: Type.Object({
    dropped: Type.Optional(Type.Number()),
    least: Type.Optional(Type.Number()),
    overlap: Type.Optional(Type.Number()),
    depth: share,
    answerKept: share,
    map: Type.Optional(Type.String({ pattern: '^[A-Za-z0-9+/]*={0,2}$' })),
  }),
});

/**
 * Returns the name of the queue for a model's cells; other weights, another engine or another version of kv use another
 * queue.
 */
export const cellQueue = ({ fingerprint, engine }: Pick<Subject, 'fingerprint' | 'engine'>, kv: string): string =>
  `cells-${digest({ cells: CELLS, weights: fingerprint, engine, kv })}`;

/** Maximum characters of a text per token of a model's context; a longer text is rejected unread. */
const MOST_CHARACTERS = 256;

/**
 * Validates a value from a queue as a job for this model and this code. Nothing that it names is imported. @throws
 * KvError in one sentence
 */
export async function checkCellJob(
  value: unknown,
  subject: Pick<Subject, 'name' | 'config' | 'tokenizer'>,
  code: NonNullable<PolicyNaming['code']>,
): Promise<CellJob> {
  checkShape(value, Job, 'job');
  const job = value as CellJob, // its budget is checked next
    { cell, problem, generation } = job,
    most = MOST_CHARACTERS * subject.config.maxPositions;
  if (cell.budget !== undefined && !isFileBudget(cell.budget))
    throw new KvError('job', `expected a budget such as 64, 25% or 64MiB, got ${JSON.stringify(cell.budget)}`);
  if (cell.problem !== problem.id)
    throw new KvError('job', `expected the problem of its cell, got ${JSON.stringify(problem.id.slice(0, 80))}`);
  if (problem.context.length + problem.question.length + (problem.answers[0] ?? '').length > most)
    throw new KvError('job', `expected a text of at most ${most} characters, got a longer one`);
  checkFits(subject, 'job', problem, generation);
  const here = await code([cell.policy]),
    but = (some: readonly string[], others: readonly string[]): string =>
      some.filter((one) => !others.includes(one)).join(', ') || 'nothing else';
  if (here.join() !== job.code.join())
    throw new KvError('job', `expected a worker with ${but(job.code, here)}, got ${but(here, job.code)}`);
  return job;
}

/** Validates a worker's outcome of a cell and scores it here. @throws KvError for a value of another shape */
export function cameOf(value: unknown, cell: Cell, problem: Problem): CellResult {
  checkShape(value, CameShape, `result of ${cellId(cell)}`);
  const { answer, tokens, slots, bytes, evidence } = value as CellOutcome,
    { dropped, least, overlap, depth, answerKept, map } = evidence,
    extent = ({ mean, peak }: CellOutcome['slots']): CellOutcome['slots'] => ({ mean, peak });
  // in the field order of a local run: equal results have equal bytes
  return cellResult(cell, problem, {
    answer,
    tokens,
    slots: extent(slots),
    bytes: extent(bytes),
    evidence: {
      ...(dropped !== undefined && { dropped }),
      ...(least !== undefined && { least }),
      ...(overlap !== undefined && { overlap }),
      ...(depth !== undefined && { depth }),
      ...(answerKept !== undefined && { answerKept }),
      ...(map !== undefined && { map }),
    },
  });
}

interface Asked {
  readonly result: unknown;
  forget(): Promise<void>;
}

/**
 * Returns runners that let workers of a queue run the cells. Results come in the order of the requests, whichever
 * worker finishes first, so that equal runs write equal files; a stored result is then deleted from the queue.
 * @param ask sends a job to a queue and waits for its result
 * @param code identifies the code that workers must run
 * @throws KvError, from a runner, for a result that is not one of this job
 */
export function elsewhere(
  ask: (job: CellJob) => Promise<Asked>,
  code: NonNullable<PolicyNaming['code']>,
): (work: OwnWork) => Runner<Cell, CellResult> {
  const codes = new Map<string, Promise<readonly string[]>>();
  let last: Promise<unknown> = Promise.resolve();
  const codeOf = (policy: string): Promise<readonly string[]> => {
    const known = codes.get(policy) ?? code([policy]);
    codes.set(policy, known);
    return known;
  };
  return (work) => {
    if (work.kind !== 'cells') throw new Error(`elsewhere: expected cells, got ${work.kind}`);
    const { tasks, generation } = work,
      problemOf = problemsOf(tasks);
    let forget = async (): Promise<void> => {};
    const answered = async (cell: Cell, turn: Promise<unknown>): Promise<CellResult> => {
      await forget();
      forget = async () => {};
      const problem = problemOf(cell);
      const asked = await ask({ format: 1, cell, problem, generation, code: await codeOf(cell.policy) });
      try {
        const result = cameOf(asked.result, cell, problem);
        await turn;
        forget = asked.forget;
        return result;
      } catch (error) {
        await asked.forget(); // so that it can be asked again
        throw error;
      }
    };
    return {
      run(cell) {
        const result = answered(cell, last);
        last = result.catch(() => {});
        return result;
      },
      stop: () => forget().catch(() => {}),
    };
  };
}
