import { compile, KvError } from '@kv/core';
import type { Policy, ProviderEngine } from '@kv/core';
import { sidecarFile } from '@kv/models';
import type { Checkpoint } from '@kv/models';
import { resolvePolicy } from '../policy/resolve-policy.ts';
import { contrastsOf, promptsOf } from './jobs.ts';
import { isAsked, promptFor } from './prompts.ts';
import type { Kind, Plan, Planned, Row, Task } from './types.ts';
import { isPlanned } from './types.ts';

/** What says whether a model can be asked a row: no weights. */
export interface Carrier extends Pick<Checkpoint, 'config' | 'tokenizer'> {
  /** What `loadModel` takes. */
  readonly path: string;
  readonly kind: Kind;
  readonly sentences: readonly string[];
  /** Tokens of the book's part that its prose comes from. */
  readonly prose: number;
  readonly cwd: string;
}

/** Answers and questions are shorter. */
const ROOM = 32;
const lengthOf = (task: Task): number =>
  task.kind === 'continuation'
    ? task.context + task.follow
    : task.kind === 'costs'
      ? task.tokens + task.follow
      : task.tokens + (isAsked(task) ? ROOM : 0);

/**
 * Rows as they can be asked of this model: what its context, its tokenizer or the files beside it cannot carry is
 * excused in a sentence.
 */
export async function carried(
  rows: readonly Row[],
  plan: Plan,
  carrier: Carrier,
  asked: number | undefined,
): Promise<readonly Row[]> {
  return Promise.all(
    rows.map(async (row): Promise<Row> => {
      const excuse = isPlanned(row)
        ? await excuseOf(row, plan, carrier, promptsOf(row, carrier.kind, asked))
        : undefined;
      return excuse === undefined
        ? row
        : { id: row.id, paper: row.paper, claim: row.claim, promise: row.promise, excuse };
    }),
  );
}

async function excuseOf(
  row: Planned,
  { tasks }: Plan,
  { path, kind, config, tokenizer, sentences, prose, cwd }: Carrier,
  n: number,
): Promise<string | undefined> {
  const contrasts = contrastsOf(row, kind);
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
      return `${name} takes ${n} windows of ${length} tokens, its part of the book has ${prose} with this tokenizer`;
  }
  for (const { policy } of contrasts.flatMap(({ a, b }) => (b ? [a, b] : [a]))) {
    const missing = await missingFile(await resolvePolicy(policy, { cwd }), path);
    if (missing !== undefined) return missing;
  }
  return undefined;
}

/** What a policy says of a file that it reads beside the model, where that is not there or of another model. */
async function missingFile(policy: Policy, path: string): Promise<string | undefined> {
  const engine = {
    artifact: (name: string) => sidecarFile(path, name),
    hiddenNumbers: async () => new Float32Array(),
  } as unknown as ProviderEngine;
  try {
    for (const { cost, provide } of compile(policy).needs) if (cost === 'artifact') await provide?.(engine, 0);
    return undefined;
  } catch (cause) {
    if (KvError.is(cause)) return cause.message;
    throw cause;
  }
}
