import { raisedText } from './allowance.ts';
import type { Check, DraftSelection } from '../piece/atoms.ts';
import type { Backend } from '../tensor/backend.ts';
import { checkedBudgets, checkedLevels, checkedSlots } from './boundary.ts';
import { badNumber } from '../tensor/host-tensor.ts';
import { KvError } from '../tensor/errors.ts';
import { budgetHint, forcersOf } from './forced.ts';
import type { EventLayer } from './steps.ts';
import type { Tensor } from '../tensor/tensor.ts';
import { sumOf } from '../tensor/sum-of.ts';

/** What an event decided, on the host. */
export interface EventDecision {
  /** Ascending slots, `[layer][kvHead]`. */
  readonly kept: readonly (readonly Uint32Array[])[];
  readonly budgets: readonly (readonly number[])[];
  /** Levels of the kept slots, in their order, `[layer][kvHead]`; absent if the policy gives none. */
  readonly levels?: readonly (readonly Uint8Array[])[];
  /** Unit of every position, where the policy has cut the text by position. */
  readonly units?: Uint32Array;
  /** Notes of pieces, and that forced slots made the event keep more than a share allots. */
  readonly notes: readonly string[];
}
type Read = Awaited<ReturnType<Backend['read']>>;

/** Returns the tensors that `decisionsOf` needs, in one read. */
export const toRead = (drafts: readonly DraftSelection[]): readonly Tensor[] => [
  ...drafts.flatMap(({ checks }) => checks.map(({ bad }) => bad)),
  ...drafts.map(({ budgets }) => budgets),
  ...drafts.map(({ kept, budgets }) => kept ?? budgets),
  ...drafts.flatMap(({ allotted = [] }) => allotted),
  ...drafts.flatMap(({ levels = [] }) => levels),
];

/** Returns the masks of forced slots in drafts: what tells forced slots from those that a selector kept too many. */
export const forcedMasks = (drafts: readonly DraftSelection[]): readonly Tensor[] =>
  drafts.flatMap(({ forced = [] }) => forced);

/**
 * Returns the decisions in drafts that were read; with `open`, drafts need no kept slots. @throws KvError, see
 * `readDecisions`
 * @param masks `forcedMasks` that were read; without them, what is kept above a budget is taken for forced
 */
export function decisionsOf(
  layers: readonly EventLayer[],
  drafts: readonly DraftSelection[],
  read: Read,
  open = false,
  masks?: Read,
): EventDecision {
  const checks = drafts.flatMap((d, i) => d.checks.map((c) => ({ columns: layers[i].at.slots, ...c })));
  expectPromises(
    checks.filter(({ late }) => !late),
    read.filter((_, i) => i < checks.length && !checks[i].late),
  );
  const budgets = drafts.map((_, i) => Array.from(read[checks.length + i].data));
  for (const [i, draft] of drafts.entries()) checkedBudgets(draft, layers[i].at.layer, budgets[i]);
  let at = checks.length + 2 * drafts.length;
  const allotted = drafts.map((draft, i) => (draft.allotted ? Array.from(read[at++].data) : budgets[i]));
  checkedTotal(layers, drafts, allotted);
  const raised = drafts.flatMap(({ forcedBy = [] }, i) => {
    const { above } = layers[i],
      before = (r: number): number => allotted[i][Math.floor((r * allotted[i].length) / budgets[i].length)];
    return above && budgets[i].some((b, r) => b > before(r)) ? [raisedText(above.share, forcedBy)] : [];
  });
  const kept = drafts.map((draft, i) => {
    const { at } = layers[i];
    if (!draft.kept && open) return [];
    if (!draft.kept)
      throw new KvError(
        'event',
        `layer ${at.layer} ended without kept slots, expected a policy that ends in a selector`,
      );
    const { data, shape, lengths } = read[checks.length + drafts.length + i];
    const [rows, slots] = shape;
    return Array.from({ length: at.selectRows }, (_, g) => {
      const row = Math.floor((g * rows) / at.selectRows);
      const count = lengths ? lengths[row] : slots;
      const limit = budgets[i][Math.floor((g * budgets[i].length) / at.selectRows)];
      if (count > slots)
        throw new KvError(
          `${draft.selectedBy ?? 'event'}, layer ${at.layer}`,
          `expected at most ${slots} kept slots in row ${row}, got ${count}`,
        );
      const mask = masks?.[forcedMasks(drafts.slice(0, i)).length],
        forced = !draft.forced || count <= limit ? 0 : mask ? forcedIn(mask, g, at.selectRows) : count;
      if (forced > limit)
        throw new KvError(
          'budget',
          `layer ${at.layer}, head ${g}: ${forced} slots are forced, but the budget is ${limit}: ${budgetHint(forced, draft.forcedBy)}`,
        );
      if (count > limit)
        throw new KvError(
          `${draft.selectedBy ?? 'event'}, layer ${at.layer}`,
          `expected at most the ${limit} slots of its budget in head ${g}, got ${count}`,
        );
      const set = (data as Uint32Array).slice(row * slots, row * slots + count);
      checkedSlots(draft, at, set);
      return set;
    });
  });
  expectPromises(
    checks.filter(({ late }) => late),
    read.filter((_, i) => i < checks.length && checks[i].late),
  );
  const levels = drafts.map((draft, i) => {
    if (!draft.levels) return undefined;
    const { data, shape } = read[at++],
      [rows, slots] = shape,
      of = layers[i].at;
    return kept[i].map((set, g) => {
      const row = Math.floor((g * rows) / of.selectRows);
      return checkedLevels(draft, of, set, data.subarray(row * slots, (row + 1) * slots));
    });
  });
  const units = drafts[0]?.units?.byPosition;
  return {
    kept,
    budgets,
    ...(units && { units }),
    ...(levels.every((of) => of !== undefined) && levels.length > 0 && { levels }),
    notes: [
      ...new Set([
        ...raised,
        ...checks.flatMap(({ note }, i) => (note !== undefined && read[i].data[0] > 0 ? [note] : [])),
      ]),
    ],
  };
}

/** Returns the number of slots that a mask forces in a row that selects: those that any row of its group forces. */
function forcedIn({ data, shape: [rows, slots], lengths }: Read[number], row: number, of: number): number {
  const forced = new Set<number>();
  for (let r = 0; r < rows; r++) {
    if (rows > of ? Math.floor((r * of) / rows) !== row : Math.floor((row * rows) / of) !== r) continue;
    const n = lengths ? lengths[Math.floor((r * lengths.length) / rows)] : slots;
    for (let i = 0; i < n; i++) if (data[r * slots + i] > 0) forced.add(i);
  }
  return forced.size;
}

/**
 * Checks the promises of pieces about their numbers.
 * @throws KvError for the first promise that the numbers read do not keep
 */
export function expectPromises(checks: readonly Check[], read: Read): void {
  for (const [i, check] of checks.entries()) {
    const { piece, layer, want, what = 'scores', columns = 1, note } = check,
      [bad] = read[i].data;
    if (bad > 0 && note === undefined)
      throw new KvError(
        `${piece}, layer ${layer}`,
        `${what} must be ${want}, got ${brokenBy(check)} in row ${Math.floor((bad - 1) / columns)}, slot ${(bad - 1) % columns}`,
      );
  }
}

/** Describes what breaks a promise: the number itself if it was checked on the host. */
function brokenBy({ bad, want, late, got }: Check): string {
  if (got !== undefined) return got;
  if (!want.includes('finite')) return 'another number';
  const number = late ? undefined : badNumber(bad);
  if (number !== undefined) return String(Number(number.toPrecision(7)));
  return want === 'finite' ? 'NaN or an infinity' : 'NaN, an infinity or a negative number';
}

/** Checks that allocators that read scores allot no more slots than were asked for. */
function checkedTotal(
  layers: readonly EventLayer[],
  drafts: readonly DraftSelection[],
  budgets: EventDecision['budgets'],
): void {
  const by = drafts.find((draft) => draft.allottedBy)?.allottedBy;
  if (!by?.bounded) return;
  const asked = sumOf(layers.map((layer) => sumOf(layer.budgets)));
  const got = sumOf(budgets.map((rows, i) => (sumOf(rows) * layers[i].budgets.length) / rows.length));
  if (got <= asked) return;
  const heads = sumOf(layers.map((layer) => layer.budgets.length)),
    forcers = forcersOf(...drafts);
  throw new KvError(
    by.name,
    `expected at most the ${asked} slots that were asked for, got ${got}${forcers ? `: ${budgetHint(Math.ceil(got / heads), forcers)}` : ''}`,
  );
}

/**
 * Makes the one read of an event: checks, budgets and kept slots.
 *
 * @throws KvError before anything is compacted, for a score that is not finite (or is below 0 where weights are
 * promised), for invalid budgets or slots, and for more forced slots than budget; each names piece, layer and slot.
 */
export async function readDecisions(
  backend: Pick<Backend, 'read' | 'lasting'>,
  layers: readonly EventLayer[],
  drafts: readonly DraftSelection[],
): Promise<EventDecision> {
  const read = await backend.read(toRead(drafts));
  try {
    return decisionsOf(layers, drafts, read);
  } catch (cause) {
    if (!backend.lasting) throw cause;
    // masks are read for the sentence alone: who is at fault
    return decisionsOf(layers, drafts, read, false, await backend.read(forcedMasks(drafts)));
  }
}
