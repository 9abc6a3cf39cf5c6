import { createHash } from 'node:crypto';
import { compile } from '@kv/core/engine';
import { policySizes } from '@kv/engine';
import { decode, Sequence } from '@kv/models';
import type { Problem } from '@kv/tasks';
import { mean } from '../numbers.ts';
import { policyOf } from '../policies.ts';
import { slotsNow, using } from '../sequences.ts';
import type { Bench } from '../subject.ts';
import { answerTokens, keptOf, watch } from './evidence.ts';
import { isRead, readPerplexity, readIds } from './perplexity.ts';
import { cellId, cellResult, EXACT } from './types.ts';
import type { Cell, CellResult, GenerationOptions, Tasks } from './types.ts';

/** Data shared by the cells of a run. */
export interface CellWork {
  readonly tasks: Tasks;
  readonly generation: GenerationOptions;
}

/** Returns a function that runs a cell on a cache of its own. */
export function cellRunner(bench: Bench, { tasks, generation }: CellWork): (cell: Cell) => Promise<CellResult> {
  const problemOf = problemsOf(tasks);
  return (cell) => runCell(bench, problemOf(cell), generation, cell);
}

/** Returns a function that looks up the problem of a cell. */
export function problemsOf(tasks: Tasks): (cell: Cell) => Problem {
  const problems = new Map(
    Object.entries(tasks).map(([task, all]) => [task, new Map(all.map((one) => [one.id, one]))] as const),
  );
  return (cell) => {
    const problem = problems.get(cell.task)?.get(cell.problem);
    if (!problem) throw new Error(`cell: expected a problem of its task, got ${cellId(cell)}`);
    return problem;
  };
}

/** Runs one cell on a cache of its own. */
export async function runCell(
  { model, names }: Bench,
  problem: Problem,
  { mode = 'aware', every, block, maxNewTokens = problem.maxNewTokens, temperature = 0, topP = 1 }: GenerationOptions,
  cell: Cell,
): Promise<CellResult> {
  const policy = await policyOf(cell.policy, names, cell.seed),
    { evicts } = compile(policy),
    { encode } = model.tokenizer,
    { context, question, stop } = problem;
  return using(new Sequence(model, undefined, { cache: cell.cache ?? EXACT }), async (sequence) => {
    const certified = watch(sequence),
      text = isRead(problem) ? readIds(problem, encode) : undefined,
      { ids, offsets } = text
        ? { ids: text.ids.slice(0, text.from), offsets: text.offsets }
        : encode(mode === 'aware' ? context + question : context);
    await sequence.prefill(ids, {
      policy,
      budget: cell.budget,
      block: evicts ? block : undefined,
    });
    if (text) {
      const kept = keptOf(sequence.kept(), ids.length, []),
        next = text.ids.slice(text.from),
        { nats, slots } = await readPerplexity(sequence, next, policy, evicts ? every : undefined);
      return result(sequence, {
        answer: String(nats),
        tokens: next.length,
        slots,
        evidence: { ...certified(), ...kept },
      });
    }
    if (mode === 'agnostic') await sequence.append(encode(question, { special: false }).ids);
    const slots = [slotsNow(sequence)],
      kept = keptOf(sequence.kept(), ids.length, answerTokens(problem, offsets));
    let answer = '',
      tokens = 0;
    for await (const chunk of decode(sequence, {
      maxNewTokens,
      stop,
      temperature,
      topP,
      seed: seedOf(cell),
      every: evicts ? every : undefined,
    })) {
      answer += chunk.text;
      if (chunk.token === undefined) continue;
      tokens++;
      slots.push(slotsNow(sequence));
    }
    return result(sequence, { answer, tokens, slots, evidence: { ...certified(), ...kept } });
  });

  function result(
    sequence: Sequence,
    { slots, ...came }: Pick<CellResult, 'answer' | 'tokens' | 'evidence'> & { readonly slots: readonly number[] },
  ): CellResult {
    const { meanDecode, live, peak } = sequence.memory.ledger.bytes(),
      { fixedBytes = 0 } = policySizes(model.config, cell.cache ?? EXACT, compile(policy)),
      [all, now] = [mean(slots), slotsNow(sequence)];
    return cellResult(cell, problem, {
      ...came,
      slots: { mean: all, peak: sequence.memory.progress.mostSlots },
      // tokens that are read in blocks are no steps: their slots say what the cache held along them
      bytes: { mean: meanDecode || (now > 0 ? fixedBytes + ((live - fixedBytes) * all) / now : live), peak },
    });
  }
}

/** Seed of a cell: all policies draw the same random numbers for a problem. */
const seedOf = ({ seed, task, problem }: Cell): number =>
  createHash('sha256')
    .update(JSON.stringify([seed, task, problem]))
    .digest()
    .readUInt32LE(0);
