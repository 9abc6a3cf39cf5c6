import { attentionMax, positions } from '@kv/core';
import { cpu } from '@kv/cpu';
import {
  compile,
  filesOf,
  isInputSignal,
  planBudgets,
  runEvent,
  runInputSignal,
  readDecisions,
  signalKey,
} from '@kv/core/engine';
import type { AnySignal, Backend, Ops, Piece, Policy, ProviderEngine, Tensor, DraftSelection } from '@kv/core';
import type { EventLayer } from '@kv/core/engine';
import { stage } from '@kv/laws';
import type { Layer, Scene } from '@kv/laws';
import { sidecarFiles } from './sidecar-files.ts';

type Slots = readonly (readonly number[])[];
/** Decisions of one event in one layer, by KV head (inside a view: by choosing row). */
export interface Decided {
  readonly kept: Slots;
  /** Levels of these slots, under a demotion. */
  readonly levels?: Slots;
  readonly forced: Slots;
  readonly banned: Slots;
  /** Number of slots present. */
  readonly lengths: readonly number[];
  /** Budgets before the scores were read, and at the end. */
  readonly planned: readonly number[];
  readonly budgets: readonly number[];
}
/** Puts a scene on a backend, with the signals that providers derive from it. */
async function staged(scene: Scene, ops: Ops, needs: readonly AnySignal[]): Promise<readonly EventLayer[]> {
  const made = new Map<string, unknown>(),
    name = (layer: number, signal: AnySignal): string => `${layer} ${signalKey(signal)}`;
  const { layers } = stage(scene, ops, { signals: (signal, { at }) => made.get(name(at.layer, signal)) });
  for (const [l, layer] of layers.entries())
    for (const signal of [...needs, ...filesOf(needs.filter(isInputSignal))])
      if (signal.provide)
        made.set(
          name(l, signal),
          await signal.provide(
            engine(scene.layers[l], () => layer.read(attentionMax(1)) as Tensor),
            l,
          ),
        );
  for (const [l, layer] of layers.entries())
    for (const signal of needs.filter(isInputSignal)) {
      const { at } = scene.layers[l],
        data = Float32Array.from({ length: at.slots }, (_, i) => 4 * Math.sin(7 * i + l)),
        numbers = runInputSignal(signal, {
          at,
          ops,
          input: ops.from({ data, shape: [1, at.slots, 1] }),
          read: (file) => made.get(name(l, file)),
        });
      // heads have as many slots as they have positions
      made.set(name(l, signal), ops.add(numbers, ops.mul(layer.read(positions) as Tensor, 0)));
    }
  return layers;
}
/** What providers request from an engine, computed from a scene: largest weights, and rows of causal attention. */
const engine = ({ tokens, at }: Layer, largest: () => Tensor): ProviderEngine => ({
  artifact: async (name) => sidecarFiles(at).get(name),
  hiddenNumbers: async (_key, fold) => fold(new Float32Array(at.length), 1),
  ids: tokens.ids,
  promptLength: at.promptLength,
  encode: (text) => [text.length],
  decode: (ids) => ids.join(' '),
  observeMax: async () => largest(),
  queriesOf: () => Promise.reject(new Error('no piece asks for queries unless its options say so')),
  attentionRows: async (_layer, visit, from = 0) => {
    for (let q = from; q < at.length; q++)
      visit(
        q,
        Float32Array.from({ length: at.queryHeads * (q + 1) }, (_, i) => (1 + Math.sin(7 * q + i)) / (q + 1)),
      );
  },
});
const needsOf = (policy: Piece | Policy): readonly AnySignal[] => policy.atoms.flatMap((a) => a.needs);

/** Returns the slots of each row where a mask is not 0; a row that stands for a group has those of the whole group. */
function marked(
  { data, shape: [had = 1, slots = 0] }: { readonly data: ArrayLike<number>; readonly shape: readonly number[] },
  lengths: readonly number[],
): Slots {
  const rows = lengths.length;
  return lengths.map((n, r) => {
    const own =
      had > rows ? Array.from({ length: had / rows }, (_, i) => r * (had / rows) + i) : [Math.floor((r * had) / rows)];
    return Array.from({ length: n }, (_, i) => i).filter((i) => own.some((h) => data[h * slots + i] !== 0));
  });
}

/** Runs one event of an evicting policy, with its compaction. @throws KvError of a piece, or of `readDecisions` */
export async function event(
  policy: Policy,
  scene: Scene,
  budget: number,
  backend: Backend = cpu,
): Promise<readonly Decided[]> {
  const compiled = compile(policy),
    { ops } = backend,
    plan = planBudgets(
      compiled,
      budget,
      scene.layers.map((l) => l.lengths),
    );
  const layers = (await staged(scene, ops, needsOf(policy))).map(
    (layer, l): EventLayer => ({ ...layer, at: { ...layer.at, budget }, budgets: plan.budgets[l] }),
  );
  const drafts = runEvent(compiled, layers, ops),
    { kept, levels, budgets } = await readDecisions(backend, layers, drafts);
  const hooks = [...compiled.hooks('compact'), ...compiled.hooks('evict')],
    folded = hooks.flatMap((hook) =>
      layers.flatMap(({ at, read }, l) => {
        const made = hook.run({
          ...{ at, ops, draft: drafts[l], kept: drafts[l].kept! },
          read: <V>(signal: AnySignal) => read(signal) as V,
        });
        return made instanceof Map ? [...made.values()] : Object.values(made);
      }),
    );
  const masks = drafts
    .flatMap(
      ({ forced, banned }, l) =>
        [
          ['forced', l, forced],
          ['banned', l, banned],
        ] as const,
    )
    .filter((m) => m[2] !== undefined);
  const read = await backend.read([...masks.map((m) => m[2]!), ...folded]),
    none = scene.layers[0].lengths.map(() => []);
  for (const { data } of read.slice(masks.length))
    if (!data.every(Number.isFinite)) throw new Error(`${policy.label} folded a number that is not finite`);
  return scene.layers.map(({ lengths }, l) => {
    const slotsOf = (name: string): Slots => {
      const at = masks.findIndex((m) => m[0] === name && m[1] === l);
      return at < 0 ? none : marked(read[at], lengths);
    };
    return {
      kept: kept[l].map((s) => [...s]),
      ...(levels && { levels: levels[l].map((of) => [...of]) }),
      budgets: budgets[l],
      planned: plan.budgets[l],
      lengths,
      forced: slotsOf('forced'),
      banned: slotsOf('banned'),
    };
  });
}

/** Returns what a policy's views leave visible in each layer, by choosing row. */
export async function visible(policy: Policy, scene: Scene, backend: Backend = cpu): Promise<readonly Slots[]> {
  const { ops } = backend,
    layers = await staged(scene, ops, needsOf(policy));
  const masks = layers.flatMap(({ at, read }, l) => {
    const draft: DraftSelection = {
      budgets: ops.from({ data: [at.budget], shape: [1, 1] }),
      state: new Map(),
      checks: [],
    };
    return compile(policy)
      .hooks('view')
      .flatMap((hook) => {
        const { mask } = hook.run({ at, ops, draft, read: <V>(signal: AnySignal) => read(signal) as V });
        return mask ? [[l, mask] as const] : [];
      });
  });
  const read = await backend.read(masks.map(([, mask]) => mask));
  return read.map((mask, i) => {
    const { lengths } = scene.layers[masks[i][0]],
      rows = mask.shape[0];
    return marked(
      mask,
      Array.from({ length: rows }, (_, r) => lengths[Math.floor((r * lengths.length) / rows)]),
    );
  });
}
