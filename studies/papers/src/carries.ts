import { KvError } from '@kv/core';
import type { Policy } from '@kv/core';
import type { RegistryOf, Subject } from '@kv/evaluation';
import { askFiles, percent } from '@kv/evaluation/shared';
import { contrastsOf, policyOf, promptsOf } from './jobs.ts';
import { ENOUGH, powerOfRow } from './power.ts';
import { isAsked, promptFor } from './prompts.ts';
import { isPlanned, kindOf } from './types.ts';
import type { Plan, Planned, Row, Task } from './types.ts';

/** What is needed to tell whether a model can be asked a row; no weights. */
export interface Carrier {
  readonly subject: Pick<Subject, 'name' | 'config' | 'tokenizer' | 'sidecar'>;
  readonly sentences: readonly string[];
  /** Number of tokens in the part of the text that prose is taken from. */
  readonly prose: number;
  readonly names?: RegistryOf | undefined;
}

/** Tokens reserved for answer and question, which are shorter. */
const ROOM = 32;
const lengthOf = (task: Task): number =>
  (task.kind === 'continuation' ? task.context : task.tokens) +
  (isAsked(task) ? ROOM : 'follow' in task ? task.follow : 0);

/**
 * Returns the rows for this model; a row that its context, tokenizer or stored files cannot carry is excused in a
 * sentence.
 */
export const carried = (
  rows: readonly Row[],
  plan: Plan,
  carrier: Carrier,
  asked: number | undefined,
): Promise<readonly Row[]> =>
  Promise.all(
    rows.map(async (row): Promise<Row> => {
      const excuse = isPlanned(row) && (await excuseOf(row, plan, carrier, asked)),
        { id, paper, claim, table, promise } = row;
      return excuse ? { id, paper, claim, ...(table !== undefined && { table }), promise, excuse } : row;
    }),
  );

async function excuseOf(
  row: Planned,
  { tasks }: Plan,
  { subject, sentences, prose, names }: Carrier,
  asked: number | undefined,
): Promise<string | undefined> {
  const { config, tokenizer } = subject,
    kind = kindOf(subject),
    contrasts = contrastsOf(row, kind),
    n = promptsOf(row, kind, asked),
    power = asked === undefined ? powerOfRow(row, kind) : undefined;
  if (power !== undefined && power < ENOUGH)
    return `a difference as large as the paper's would be found with a chance of ${percent(power)} on ${n} prompts, which is below ${percent(ENOUGH)}`;
  for (const name of new Set(contrasts.map(({ task }) => task))) {
    const task = tasks[name],
      length = lengthOf(task);
    if (length > config.maxPositions)
      return `${name} takes ${length} tokens of context, this model has ${config.maxPositions}`;
    if (isAsked(task)) {
      try {
        promptFor(task, { encode: tokenizer.encode, sentences, embedded: kind === 'embedded' }, 'papers/carried', 0);
      } catch (cause) {
        if (cause instanceof RangeError)
          return `${name} cannot be written with this tokenizer: ${cause.message.replace(/^needle: /, '')}`;
        throw cause;
      }
    } else if (n * length > prose)
      return `${name} takes ${n} windows of ${length} tokens, its part of the text has ${prose} with this tokenizer: a longer one makes room`;
  }
  for (const { policy } of contrasts.flatMap(({ a, b }) => (b ? [a, b] : [a]))) {
    const missing = await missingFile(await policyOf(policy, names), subject);
    if (missing !== undefined) return missing;
  }
  return undefined;
}

/** Returns the error of a policy whose file, stored with the model, is missing or belongs to another model. */
async function missingFile(policy: Policy, { sidecar }: Pick<Subject, 'sidecar'>): Promise<string | undefined> {
  try {
    await askFiles(policy, sidecar);
    return undefined;
  } catch (cause) {
    if (KvError.is(cause)) return cause.message;
    throw cause;
  }
}
