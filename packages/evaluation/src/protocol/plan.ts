import { dirname, resolve } from 'node:path';
import { KvError } from '@kv/core';
import type { Problem } from '@kv/tasks';
import Type from 'typebox';
import type { Static } from 'typebox';
import { Within } from '../cells/rebudget.ts';
import { GENERATION, OneCache } from '../cells/types.ts';
import { readProblems } from '../files/problems.ts';
import { readJson } from '../files/read-json.ts';
import { digest } from '../jobs/store.ts';
import { splitIds } from './split.ts';

const name = Type.String({ minLength: 1, maxLength: 10_000 });
/** Schema of a plan, which is written before anything is run. */
export const Protocol = Type.Object(
  {
    /** Path of the problem file, relative to the plan. */
    tasks: name,
    /** The decision rule treats primary and second models separately. */
    models: Type.Array(
      Type.Object(
        { name, model: name, role: Type.Union([Type.Literal('primary'), Type.Literal('second')]) },
        { additionalProperties: false },
      ),
      { minItems: 1 },
    ),
    budgets: Type.Array(Type.Integer({ minimum: 1 }), { minItems: 1, uniqueItems: true }),
    /** The policy to improve on. */
    base: name,
    /** The candidate policy, which contains {lambda}. */
    candidate: name,
    lambdas: Type.Array(Type.Number({ minimum: 0 }), { minItems: 1, uniqueItems: true }),
    /** The probe uses the first. */
    seeds: Type.Optional(Type.Array(Type.Integer({ minimum: 0 }), { minItems: 1, uniqueItems: true })),
    /** How caches are stored; f32 if the plan does not say. */
    cache: Type.Optional(OneCache),
    /** Tolerated relative difference from the base's mean cache. */
    within: Type.Optional(Within),
    ...GENERATION,
  },
  { additionalProperties: false },
);
export type ProtocolPlan = Static<typeof Protocol>;

/** A plan with its problems. */
export interface LoadedPlan {
  readonly plan: ProtocolPlan & Required<Pick<ProtocolPlan, 'seeds' | 'within'>>;
  readonly problems: readonly Problem[];
  readonly dev: readonly string[];
  readonly confirm: readonly string[];
  /** Hash of each problem's text by id: context and question, without insignificant white space. */
  readonly texts: ReadonlyMap<string, string>;
  /** Hash of the plan and its problems. */
  readonly hash: string;
}

/**
 * Reads a plan and its problems.
 * @param called what errors call the file
 * @throws KvError in one sentence
 */
export function readProtocol(path: string, called: string): LoadedPlan {
  const read = readJson(path, called, Protocol),
    plan = { seeds: [0, 1, 2], within: 0.01, ...read },
    names = plan.models.map((one) => one.name);
  if (!plan.candidate.includes('{lambda}'))
    throw new KvError(called, `candidate must hold {lambda}, got ${JSON.stringify(plan.candidate.slice(0, 80))}`);
  if (new Set(names).size < names.length)
    throw new KvError(called, `models must have different names, got ${names.join(', ')}`);
  const problems = readProblems(resolve(dirname(path), plan.tasks), plan.tasks),
    { dev, confirm } = splitIds(problems);
  if (dev.length === 0 || confirm.length === 0)
    throw new KvError(
      plan.tasks,
      `expected ids on both sides of the split, got ${dev.length} to choose on and ${confirm.length} to confirm on`,
    );
  const texts = textsOf(problems, plan.tasks);
  return {
    plan,
    problems,
    dev,
    confirm,
    texts,
    // plans of these problems were once split by id alone: what they chose on may be what is confirmed on now
    hash: digest({ ...plan, tasks: problems, ...(problems.some(({ document }) => document) && { by: 'document' }) }),
  };
}

/** Returns a text without insignificant characters: invisible ones, and white space except between digits. */
const plainText = (text: string): string =>
  text
    .normalize('NFC')
    .replace(/\s+/gu, ' ')
    .replace(/[\p{Cc}\p{Default_Ignorable_Code_Point}]/gu, '')
    .replace(/(?<!\p{Nd}) | (?!\p{Nd})/gu, '');

/** Returns the hash of each problem's text, by id. @throws KvError for two ids with the same text */
function textsOf(problems: readonly Problem[], called: string): LoadedPlan['texts'] {
  const ids = new Map<string, string>();
  for (const { id, context, question } of problems) {
    const text = digest({ asked: plainText(`${context}\n${question}`) }),
      other = ids.get(text);
    if (other !== undefined)
      throw new KvError(
        called,
        `expected each problem once, got one context and question as ${JSON.stringify(other.slice(0, 80))} and as ${JSON.stringify(id.slice(0, 80))}`,
      );
    ids.set(text, id);
  }
  return new Map([...ids].map(([text, id]) => [id, text]));
}

/** Returns a note if several seeds give the same answer. */
export const seedNote = ({
  seeds = [0],
  temperature = 0,
}: Pick<ProtocolPlan, 'seeds' | 'temperature'>): string | undefined =>
  temperature === 0 && seeds.length > 1
    ? `${seeds.length} seeds at temperature 0 repeat one answer, but for policies that draw: they add time and no evidence (set temperature above 0 to sample)`
    : undefined;

/** Returns the candidate's text at a weight. */
export const candidateAt = ({ candidate }: Pick<ProtocolPlan, 'candidate'>, lambda: number): string =>
  candidate.replaceAll('{lambda}', String(lambda));

/**
 * Checks the ids given to a tuning command. @throws KvError for a confirmation id, or one that the plan does not have
 */
export function tuningIds(
  ids: readonly string[],
  { dev, confirm }: Pick<LoadedPlan, 'dev' | 'confirm'>,
  from: string,
): readonly string[] {
  const [known, held] = [new Set(dev), new Set(confirm)];
  for (const id of ids) {
    if (held.has(id))
      throw new KvError(
        from,
        `expected ids to choose on alone, got ${JSON.stringify(id.slice(0, 80))}, which is one to confirm on`,
      );
    if (!known.has(id))
      throw new KvError(from, `expected ids of the plan's problems, got ${JSON.stringify(id.slice(0, 80))}`);
  }
  return ids;
}
