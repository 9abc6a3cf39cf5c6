import { KvError, LEVELS, positions, tensorFile } from '@kv/core';
import { readCpu } from '@kv/cpu';
import { compile, withLabel } from '@kv/core/engine';
import type { DraftSelection, Level, Policy, Step, Tensor } from '@kv/core';

/** The selection of one layer after one step of an event; rows are query heads, KV heads or one. */
interface RecordedStep {
  readonly name: string;
  /** `[rows][slots]`. */
  readonly scores?: readonly Float32Array[];
  /** `forced`: 1 where a slot must stay; `banned`: 1 where it must go. */
  readonly forced?: readonly Float32Array[];
  readonly banned?: readonly Float32Array[];
  readonly budgets: readonly number[];
  /** Unit of every slot. */
  readonly unitOf?: readonly Float32Array[];
  readonly kept?: readonly Float32Array[];
  /** Level of every slot that is kept, an index among `LEVELS`. */
  readonly levels?: readonly Float32Array[];
}
/** What one event decided in one layer. */
export interface RecordedEvent {
  readonly layer: number;
  readonly kvHeads: number;
  /** Tokens generated before it. */
  readonly step: number;
  /** Tokens seen so far. */
  readonly length: number;
  /** Positions of the slots, `[KV head][slot]`. */
  readonly positions: readonly Float32Array[];
  /** What each step of the policy left, in order. */
  readonly steps: readonly RecordedStep[];
}
/** A policy that records its events, and the record. */
export interface Recorder {
  readonly policy: Policy;
  readonly events: readonly RecordedEvent[];
}

function rowsOf(tensor: Tensor): Float32Array[] {
  const { data, shape, lengths } = readCpu(tensor),
    [rows = 0, slots = 0] = shape;
  return Array.from({ length: rows }, (_, r) =>
    Float32Array.from(data.subarray(r * slots, r * slots + (lengths?.[r] ?? slots))),
  );
}

/** The name of the steps that keep what is protected, which no policy has among its own. */
const PROTECT = 'protect';

const recordedStep = (
  name: string,
  { scores, forced, banned, budgets, units, kept, levels }: DraftSelection,
): RecordedStep => ({
  name,
  budgets: Array.from(readCpu(budgets).data),
  ...(scores && { scores: rowsOf(scores) }),
  ...(forced && { forced: rowsOf(forced) }),
  ...(banned && { banned: rowsOf(banned) }),
  ...(units && { unitOf: rowsOf(units.of) }),
  ...(kept && { kept: rowsOf(kept) }),
  ...(levels && { levels: rowsOf(levels) }),
});

/**
 * Wraps a policy to record every step of every event: scores, masks, budgets and kept sets of each layer. Its decisions
 * are unchanged. For caches on the host.
 */
export function recorder(policy: Policy): Recorder {
  compile(policy);
  const events: RecordedEvent[] = [],
    open = new Map<number, RecordedStep[]>(),
    /** What the step before has forced, by layer. */
    left = new Map<number, Tensor | undefined>(),
    first = policy.atoms.findIndex(({ at }) => at === 'event');
  const atoms = policy.atoms.map((atom, i): (typeof policy.atoms)[number] => {
    if (atom.at !== 'event') return atom;
    return {
      ...atom,
      needs: atom.needs.includes(positions) ? atom.needs : [...atom.needs, positions],
      run: (cells: Parameters<Step['run']>[0]) => {
        const drafts = atom.run(cells);
        for (const [c, { at, read, draft }] of cells.entries()) {
          const { layer, kvHeads, step, length } = at;
          if (i === first) {
            const steps: RecordedStep[] = [];
            open.set(layer, steps);
            events.push({ layer, kvHeads, step, length, positions: rowsOf(read(positions)), steps });
          } else if (draft.forced !== left.get(layer)) open.get(layer)?.push(recordedStep(PROTECT, draft)); // it stands between this step and the one before
          open.get(layer)?.push(recordedStep(atom.name, drafts[c]));
          left.set(layer, drafts[c].forced);
        }
        return drafts;
      },
    };
  });
  return { policy: withLabel({ ...policy, atoms }), events };
}

/** Returns the row of a KV head: its own, the mean of its query heads, or the one of the layer. */
function rowOf(rows: readonly Float32Array[] | undefined, head: number, kvHeads: number): Float32Array | undefined {
  if (!rows || rows.length <= kvHeads) return rows?.[Math.min(head, rows.length - 1)];
  const each = rows.length / kvHeads,
    own = rows.slice(head * each, (head + 1) * each);
  return own[0].map((_, i) => own.reduce((sum, row) => sum + row[i], 0) / each);
}

/** What happened to a token in one layer and KV head. */
export interface Fate {
  readonly layer: number;
  /** KV head. */
  readonly head: number;
  /** The event at which it left, as tokens generated before it; absent where it stayed or was never there. */
  readonly left?: number;
  /** Whether it is in the cache at the end of what was recorded. */
  readonly stays: boolean;
  /** The decision of the last event that considered it. */
  readonly why?: {
    readonly budget: number;
    readonly slots: number;
    readonly forced: boolean;
    readonly banned: boolean;
    /** The piece that first forced or banned it. */
    readonly by: string | undefined;
    readonly score: number;
    /** 1 is the best; of slots that are neither forced nor banned, ties to the lower slot. */
    readonly rank: number;
    /** Slots that were forced. */
    readonly mandatory: number;
    /** The lowest score of a slot that was kept without being forced. */
    readonly bar: number | undefined;
    /** Level at which it is stored, where slots are given levels and it stays. */
    readonly level: number | undefined;
    /** Slots of its unit, where units were cut. */
    readonly unit: number | undefined;
    /** Its score after every step that changed it. */
    readonly steps: readonly (readonly [name: string, score: number])[];
  };
}

/**
 * Returns why a token is, or is no longer, in the cache, for every recorded layer and KV head.
 * @param position the token's position in the text
 * @param form that of the cache, than which nothing is stored finer @defaultValue 'f32'
 */
export function fates(events: readonly RecordedEvent[], position: number, form: Level = 'f32'): readonly Fate[] {
  const layers = [...new Set(events.map(({ layer }) => layer))].sort((a, b) => a - b);
  return layers.flatMap((layer) => {
    const own = events.filter((event) => event.layer === layer);
    return Array.from({ length: own[0].kvHeads }, (_, head) =>
      fateOf(own, position, layer, head, LEVELS.indexOf(form)),
    );
  });
}

function fateOf(events: readonly RecordedEvent[], position: number, layer: number, head: number, finest: number): Fate {
  let fate: Fate = { layer, head, stays: false };
  for (const event of events) {
    const slot = event.positions[head].indexOf(position),
      last = event.steps.at(-1);
    if (slot < 0 || !last?.kept) continue;
    const { level: now, ...why } = judged(event, head, slot),
      level = now === undefined ? undefined : Math.max(now, fate.why?.level ?? finest);
    if (!rowOf(last.kept, head, event.kvHeads)?.includes(slot))
      return { layer, head, left: event.step, stays: false, why: { ...why, level: undefined } };
    fate = { layer, head, stays: true, why: { ...why, level } };
  }
  return fate;
}

function judged(
  { steps, kvHeads, positions: all }: RecordedEvent,
  head: number,
  slot: number,
): NonNullable<Fate['why']> {
  const last = steps[steps.length - 1],
    of = (rows: readonly Float32Array[] | undefined): Float32Array | undefined => rowOf(rows, head, kvHeads),
    [scores, forced, banned, kept, unitOf] = [last.scores, last.forced, last.banned, last.kept, last.unitOf].map(of),
    n = all[head].length,
    scoreAt = (i: number): number => scores?.[i] ?? 0,
    free = Array.from({ length: n }, (_, i) => i).filter((i) => !forced?.[i] && !banned?.[i]),
    stayed = [...(kept ?? [])].filter((i) => !forced?.[i]);
  const changes: (readonly [string, number])[] = [];
  for (const { name, scores: rows } of steps) {
    const score = of(rows)?.[slot];
    if (score !== undefined && score !== changes.at(-1)?.[1]) changes.push([name, score]);
  }
  const rule = ({ forced: must, banned: may }: RecordedStep): boolean =>
    [must, may].some((rows) => (of(rows)?.[slot] ?? 0) !== 0);
  return {
    by: steps.find(rule)?.name,
    budget: last.budgets[Math.min(head, last.budgets.length - 1)],
    slots: n,
    forced: Boolean(forced?.[slot]),
    banned: Boolean(banned?.[slot]),
    score: scoreAt(slot),
    rank: 1 + free.filter((i) => scoreAt(i) > scoreAt(slot) || (scoreAt(i) === scoreAt(slot) && i < slot)).length,
    mandatory: n - free.length - (banned?.filter((x) => x !== 0).length ?? 0),
    bar: stayed.length === 0 ? undefined : Math.min(...stayed.map(scoreAt)),
    level: of(last.levels)?.[slot],
    unit: unitOf && unitOf.filter((unit) => unit === unitOf[slot]).length,
    steps: changes,
  };
}

const short = (x: number): string => String(Number(x.toPrecision(4)));

/** Returns the reason in one sentence: what was decided when, by which piece, or by which score, rank and threshold. */
export function fateText({ layer, head, left, why }: Fate): string {
  const where = `layer ${layer}, KV head ${head}: `;
  if (!why) return `${where}was never there`;
  const { budget, slots, forced, banned, by = 'a piece', score, rank, mandatory, bar, unit, level, steps } = why,
    when =
      left === undefined
        ? `stays${level === undefined ? '' : ` at ${LEVELS[level]}`}`
        : left === 0
          ? 'left after the prompt'
          : `left after ${left} generated tokens`,
    judged = forced
      ? `${by} forces it`
      : banned
        ? `${by} bans it`
        : `score ${short(score)} is number ${rank} of ${slots - mandatory} unforced slots, with room for ${Math.max(0, budget - mandatory)}${bar === undefined ? '' : `; the lowest score that stayed is ${short(bar)}`}${unit === undefined ? '' : `; its unit has ${unit} slots, which go together`}`,
    path = steps.length > 1 ? ` (${steps.map(([name, value]) => `${name} ${short(value)}`).join(', ')})` : '';
  return `${where}${when}: ${judged}${path}`;
}

/**
 * Encodes everything recorded as a safetensors file, f32: `event.E.layer.L.positions`, and for every step S of it
 * `event.E.layer.L.S.NAME.scores`, `.forced`, `.banned`, `.budgets`, `.kept` (1 where a slot stays) and `.levels` (an index among `LEVELS`), rows by slots,
 * padded with NaN where heads differ in length. E counts the events of a layer.
 *
 * @throws KvError where nothing was evicted
 */
export function traceFile(events: readonly RecordedEvent[], metadata: Readonly<Record<string, string>>): Uint8Array {
  if (events.length === 0)
    throw new KvError('trace', 'expected a policy that evicts within the run, got one without an event');
  const tensors: Record<string, { shape: readonly number[]; data: Float32Array }> = {},
    seen = new Map<number, number>();
  for (const { layer, positions: all, steps } of events) {
    const count = seen.get(layer) ?? 0,
      at = `event.${count}.layer.${layer}`;
    seen.set(layer, count + 1);
    const put = (name: string, rows: readonly Float32Array[] | undefined): void => {
      if (!rows) return;
      const width = Math.max(...rows.map(({ length }) => length)),
        data = new Float32Array(rows.length * width).fill(NaN);
      for (const [r, row] of rows.entries()) data.set(row, r * width);
      tensors[`${at}.${name}`] = { shape: [rows.length, width], data };
    };
    put('positions', all);
    for (const [s, { name, scores, forced, banned, budgets, kept, levels }] of steps.entries()) {
      put(`${s}.${name}.scores`, scores);
      put(`${s}.${name}.forced`, forced);
      put(`${s}.${name}.banned`, banned);
      put(`${s}.${name}.budgets`, [Float32Array.from(budgets)]);
      put(
        `${s}.${name}.kept`,
        kept?.map((row, r) => {
          const mask = new Float32Array(all[Math.min(r, all.length - 1)].length);
          for (const slot of row) mask[slot] = 1;
          return mask;
        }),
      );
      put(`${s}.${name}.levels`, levels);
    }
  }
  return tensorFile({ tensors, metadata });
}
