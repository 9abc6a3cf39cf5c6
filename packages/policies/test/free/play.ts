import { attentionMax, compile, cpu, planBudgets, readCpu, runEvent, settle, signalKey } from '@kv/core';
import type { AnySignal, Backend, Draft, EventLayer, Ops, Piece, Policy, ProviderEngine, Tensor } from '@kv/core';
import { stage } from '@kv/laws';
import type { Layer, Scene } from '@kv/laws';

type Slots = readonly (readonly number[])[];
/** What one event decided in one layer, by KV head (inside a view: by row that chooses). */
export interface Decided {
  readonly kept: Slots;
  readonly forced: Slots;
  readonly banned: Slots;
  /** Slots present. */
  readonly lengths: readonly number[];
  /** Before the scores were read, and at the end. */
  readonly planned: readonly number[];
  readonly budgets: readonly number[];
}
/** A scene on a backend, with what providers make of it. */
async function staged(scene: Scene, ops: Ops, needs: readonly AnySignal[]): Promise<readonly EventLayer[]> {
  const made = new Map<string, unknown>(), name = (layer: number, signal: AnySignal): string => `${layer} ${signalKey(signal)}`;
  const { layers } = stage(scene, ops, { signals: (signal, { at }) => made.get(name(at.layer, signal)) });
  for (const [l, layer] of layers.entries()) for (const signal of needs) if (signal.provide) made.set(name(l, signal), await signal.provide(engine(scene.layers[l]!, () => layer.read(attentionMax(1)) as Tensor), l));
  return layers;
}
/** What providers ask of an engine, from a scene: largest weights, and rows of causal attention. */
const engine = ({ tokens, at }: Layer, largest: () => Tensor): ProviderEngine => ({
  ids: tokens.ids, encode: (text) => [text.length], decode: (ids) => ids.join(' '), observeMax: async () => largest(),
  attentionRows: async (_layer, visit) => {
    for (let q = 0; q < at.length; q++) visit(q, Float32Array.from({ length: at.queryHeads * (q + 1) }, (_, i) => (1 + Math.sin(7 * q + i)) / (q + 1)));
  },
});
const needsOf = (policy: Piece | Policy): readonly AnySignal[] => policy.atoms.flatMap((a) => a.needs);

/** Slots of each of `rows` rows where a mask is not 0; a row that stands for a group has those of all of it. */
async function marked(backend: Backend, mask: Tensor | undefined, rows: number, lengths: readonly number[]): Promise<Slots> {
  if (!mask) return lengths.map(() => []);
  const { data, shape: [had = 1, slots = 0] } = backend === cpu ? readCpu(mask) : (await backend.read([mask]))[0]!;
  return lengths.map((n, r) => {
    const own = had > rows ? Array.from({ length: had / rows }, (_, i) => r * (had / rows) + i) : [Math.floor((r * had) / rows)];
    return Array.from({ length: n }, (_, i) => i).filter((i) => own.some((h) => data[h * slots + i] !== 0));
  });
}

/** One event of a policy that evicts, and its compaction. @throws KvError of a piece, or for what `settle` found. */
export async function event(policy: Policy, scene: Scene, budget: number, backend: Backend = cpu): Promise<readonly Decided[]> {
  const compiled = compile(policy), { ops } = backend, plan = planBudgets(compiled, budget, scene.layers.map((l) => l.lengths));
  const layers = (await staged(scene, ops, needsOf(policy))).map((layer, l): EventLayer => ({ ...layer, at: { ...layer.at, budget }, budgets: plan.budgets[l]! }));
  const drafts = runEvent(compiled, layers, ops), { kept, budgets } = await settle(backend, layers, drafts);
  for (const hook of compiled.hooks('compact')) for (const [l, { at, read }] of layers.entries()) {
    const merged = hook.run({ at, ops, draft: drafts[l]!, kept: drafts[l]!.kept!, read: <V>(signal: AnySignal) => read(signal) as V });
    for (const { data } of await backend.read(Object.values(merged).filter((t) => t !== undefined))) if (!data.every(Number.isFinite)) throw new Error(`${hook.label} left a number that is not finite`);
  }
  return Promise.all(drafts.map(async ({ forced, banned }, l) => {
    const { lengths } = scene.layers[l]!, rows = lengths.length;
    return { kept: kept[l]!.map((s) => [...s]), budgets: budgets[l]!, planned: plan.budgets[l]!, lengths, forced: await marked(backend, forced, rows, lengths), banned: await marked(backend, banned, rows, lengths) };
  }));
}

/** What the views of a policy leave visible in each layer, by row that chooses. */
export async function visible(policy: Policy, scene: Scene, backend: Backend = cpu): Promise<readonly Slots[]> {
  const { ops } = backend, layers = await staged(scene, ops, needsOf(policy));
  return Promise.all(layers.map(async ({ at, read }, l) => {
    const { lengths } = scene.layers[l]!, draft: Draft = { budgets: ops.from({ data: [at.budget], shape: [1, 1] }), state: new Map(), checks: [] };
    const masks = compile(policy).hooks('view').flatMap((hook) => hook.run({ at, ops, draft, read: <V>(signal: AnySignal) => read(signal) as V }).mask ?? []);
    return (await Promise.all(masks.map((mask) => { const rows = mask.shape[0]!; return marked(backend, mask, rows, Array.from({ length: rows }, (_, r) => lengths[Math.floor((r * lengths.length) / rows)]!)); }))).flat();
  }));
}
