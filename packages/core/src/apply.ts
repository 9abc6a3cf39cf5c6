import { KvError } from './errors.ts';
import type { At, Draft } from './atoms.ts';
import { cpu, readCpu } from './cpu/cpu.ts';
import type { Ops } from './maths.ts';
import type { Backend } from './ops.ts';
import type { Piece } from './piece.ts';
import { compile, emptyDraft, planBudgets, runSteps } from './run.ts';
import type { EventLayer } from './run.ts';
import type { AnySignal, Tokens } from './signals.ts';
import { signalKey } from './signals.ts';
import { isState } from './state.ts';
import type { StateSpec } from './state.ts';
import { sizeOf } from './tensor.ts';
import type { DenseArray, HostArray, Tensor } from './tensor.ts';

/** Plain numbers: an ndarray (or anything shaped like one), or rows of numbers. */
export type Plain = HostArray | readonly (readonly number[])[];
/** Signals under the names that the piece reads them by, plus what the draft starts with. */
export interface Inputs {
  /** Scores `[rows, n]` that a transform, allocator or selector starts from. */
  readonly scores?: Plain;
  /** Slots to keep per KV head. @defaultValue all */
  readonly budget?: number;
  readonly tokens?: Tokens;
  readonly at?: Partial<At>;
  /** Numbers, or a value that the piece reads on the host. */
  readonly [signal: string]: object | number | undefined;
}
export interface Applied {
  readonly scores?: DenseArray /** Ascending slots per row. */;
  readonly kept?: readonly (readonly number[])[];
  readonly budgets: readonly number[];
}

const isRows = (x: Plain): x is readonly (readonly number[])[] => Array.isArray(x);
const toHost = (x: Plain): HostArray =>
  isRows(x) ? { data: Float32Array.from(x.flat()), shape: [x.length, x[0]?.length ?? 0] } : x;
const isPlain = (x: unknown): x is Plain =>
  typeof x === 'object' && x !== null && (Array.isArray(x) || ('data' in x && 'shape' in x));

function record(piece: Piece, inputs: Inputs, ops: Ops): { draft: Draft; layer: EventLayer } {
  const compiled = compile(piece);
  const arrays = new Map(
    Object.entries(inputs)
      .filter((e): e is [string, Plain] => isPlain(e[1]))
      .map(([k, v]) => [k, toHost(v)]),
  );
  if (!piece.from.includes('start') && !arrays.has('scores'))
    throw new KvError(
      piece.label,
      `starts from ${piece.from.join(' or ')}: expected { scores }, got ${Object.keys(inputs).join(', ') || 'nothing'}`,
    );
  const rows = (...names: string[]): number => Math.max(0, ...names.map((n) => arrays.get(n)?.shape[0] ?? 0));
  const kvHeads = inputs.at?.kvHeads ?? (rows('values', 'keys', 'positions') || rows('attention', 'scores') || 1);
  const seen = inputs.tokens?.ids.length ?? 0,
    widths = [...arrays].filter(([k]) => k !== 'queries').map(([, a]) => a.shape[1] ?? 0);
  const slots = inputs.at?.slots ?? (widths.length > 0 ? Math.max(...widths) : seen);
  const length = inputs.at?.length ?? Math.max(slots, seen);
  const at: At = {
    layer: 0,
    layers: 1,
    queryHeads: Math.max(kvHeads, rows('attention', 'queries', 'scores')),
    kvHeads,
    headDim: arrays.get('values')?.shape[2] ?? arrays.get('keys')?.shape[2] ?? 1,
    step: 0,
    promptLength: length,
    length,
    slots,
    aligned: !arrays.has('positions'),
    budget: inputs.budget ?? slots,
    selectRows: kvHeads,
    ...inputs.at,
  };
  const read = (signal: AnySignal): unknown => {
    const given = arrays.get(signal.as);
    if (given) return ops.from(given, signal.as === 'positions' ? 'u32' : 'f32');
    if (typeof inputs[signal.as] === 'object') return inputs[signal.as];
    if (signal.id === 'positions')
      return ops.from({
        data: Uint32Array.from({ length: kvHeads * slots }, (_, i) => i % slots),
        shape: [kvHeads, slots],
      });
    if (isState(signal)) return ops.from(fresh(signal.state, at));
    throw new KvError(
      piece.label,
      `needs the signal ${signalKey(signal)}: pass it as '${signal.as}', got ${Object.keys(inputs).join(', ') || 'nothing'}`,
    );
  };
  const plan = planBudgets(compiled, at.budget, [new Array<number>(kvHeads).fill(slots)]);
  const layer: EventLayer = { at, read, budgets: plan.budgets[0] };
  const given = arrays.get('scores'),
    scores = given && ops.from(given, 'f32'),
    weights = !piece.from.includes('scores');
  const check = scores && {
    bad: ops.firstBad(scores, weights ? 0 : undefined),
    piece: piece.label,
    layer: at.layer,
    want: weights ? 'weights, finite and at least 0' : 'finite',
  };
  const start: Draft = { ...emptyDraft(layer, ops), ...(scores && check && { scores, checks: [check] }) };
  return { layer, draft: runSteps(compiled.steps, [layer], ops, [start])[0] };
}

/** State that nobody wrote yet. */
function fresh({ kind, rows, width = 1, init = 0 }: StateSpec, at: At): HostArray {
  const shape = [
    { query: at.queryHeads, kv: at.kvHeads, layer: 1, model: 1 }[rows],
    { slot: at.slots, position: at.length, unit: at.slots, sequence: width }[kind],
  ];
  return { data: new Float32Array(sizeOf(shape)).fill(init), shape };
}

type Read = {
  readonly data: Float32Array | Uint32Array;
  readonly shape: readonly number[];
  readonly lengths?: Uint32Array | undefined;
};
function applied(draft: Draft, read: readonly Read[]): Applied {
  const checks = read.slice(0, draft.checks.length);
  const bad = checks.findIndex((c) => c.data[0] > 0);
  if (bad >= 0) {
    const { piece, layer, want } = draft.checks[bad];
    throw new KvError(
      `${piece}, layer ${layer}`,
      `scores must be ${want}, got another number at flat index ${checks[bad].data[0] - 1}`,
    );
  }
  const [budgets, ...rest] = read.slice(draft.checks.length);
  const scores = draft.scores && rest.shift()!;
  const kept = draft.kept && rest.shift()!;
  return {
    budgets: Array.from(budgets.data),
    ...(scores && { scores: { data: scores.data, shape: scores.shape } }),
    ...(kept && {
      kept: Array.from({ length: kept.shape[0] }, (_, r) =>
        Array.from(kept.data.slice(r * kept.shape[1], r * kept.shape[1] + (kept.lengths?.[r] ?? kept.shape[1]))),
      ),
    }),
  };
}
const wanted = (draft: Draft): readonly Tensor[] => [
  ...draft.checks.map((c) => c.bad),
  draft.budgets,
  ...(draft.scores ? [draft.scores] : []),
  ...(draft.kept ? [draft.kept] : []),
];

/**
 * Runs a piece on plain numbers of one layer, without an engine, on the CPU. @throws KvError naming the signal that is
 * missing, or the score that is not finite.
 */
export function apply(piece: Piece, inputs: Inputs): Applied {
  const { draft } = record(piece, inputs, cpu.ops);
  return applied(draft, wanted(draft).map(readCpu));
}

/** The same on any backend, with one read. */
export async function applyOn(backend: Backend, piece: Piece, inputs: Inputs): Promise<Applied> {
  const { draft } = record(piece, inputs, backend.ops);
  return applied(draft, await backend.read(wanted(draft)));
}
