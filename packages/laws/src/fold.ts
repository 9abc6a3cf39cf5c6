import fc from 'fast-check';
import { compile, emptyDraft, isState, runAttend, stateArray } from '@kv/core/engine';
import type { LayerContext, Ops, Piece, State, Tensor } from '@kv/core';
import { cpu, readCpu } from '@kv/cpu';
import { claim, lawsOf } from './law.ts';
import type { Claims, LawOptions, Suite } from './law.ts';
import { random, vectors } from './random.ts';
import { scene, sceneSpecs } from './scene.ts';
import type { Layer, SceneSpec } from './scene.ts';

/** A piece that folds the slots that leave into state (`onEvict`), and adds that to attention (`onAttend`). */
export type AnyFold = Piece;

/** A layer's numbers, and queries that come after its slots. */
interface FoldCase {
  readonly at: LayerContext;
  readonly layer: Layer;
  readonly n: number;
  readonly biases: Float32Array;
  /** Queries `[H, m, d]`. */
  readonly q: Float32Array;
  /** In which of three groups each slot is. */
  readonly group: readonly number[];
}
type Members = (slot: number) => boolean;

/** Masses `[H, m]` and values `[H, m, d]` of a term. */
interface Term {
  readonly masses: Float32Array;
  readonly values: Float32Array;
}
/** The largest ln of a mass that is nothing. */
const NOTHING = -1e29;

const cases = (): fc.Arbitrary<FoldCase> =>
  sceneSpecs({ layers: 1 }).map((spec) => {
    const [layer] = scene(mild(spec)).layers,
      { at } = layer,
      next = random(layer.seed),
      size = at.kvHeads * at.slots,
      biased = next() < 0.5,
      m = 1 + Math.floor(3 * next());
    return {
      ...{ layer, at: { ...at, biased, ...(next() < 0.5 && { softcap: 1.5 }) }, n: at.slots },
      biases: Float32Array.from({ length: size }, () => (biased ? 2 * next() - 1 : 0)),
      q: Float32Array.from(vectors('spread', at.queryHeads * m, at.headDim, next)),
      group: Array.from({ length: size }, () => Math.floor(3 * next())),
    };
  });
/** Logits of long vectors are of one slot alone. */
const mild = (spec: SceneSpec): SceneSpec => (spec.vectors === 'long' ? { ...spec, vectors: 'spread' } : spec);

/** Returns what a piece makes of slots that leave in these groups, one event after the other, and the term it then adds. */
function folded(piece: AnyFold, { at, layer, n, biases, q }: FoldCase, events: readonly Members[]): Term {
  const { ops } = cpu,
    compiled = compile(piece),
    [fold] = compiled.hooks('evict'),
    [adds] = compiled.hooks('attend'),
    { kvHeads: G, headDim: d, queryHeads: H } = at,
    m = q.length / (H * d);
  claim(
    fold !== undefined && adds !== undefined,
    () =>
      `expected a piece with an onEvict and an onAttend hook, got '${piece.label}' without an ${fold ? 'onAttend' : 'onEvict'} hook`,
  );
  const states = new Map<string, Tensor>(),
    gone = new Set<number>(),
    initial = ({ state }: State): Tensor => ops.from(stateArray(state, at), state.dtype);
  for (const leaves of events) {
    // slots that left before are no longer there
    const heads = Array.from({ length: G }, (_, g) =>
        Array.from({ length: layer.lengths[g] }, (_, i) => g * n + i).filter((slot) => !gone.has(slot)),
      ),
      longest = Math.max(1, ...heads.map(({ length }) => length)),
      rows = ops.from({ data: Uint32Array.from(heads, ({ length }) => length), shape: [G] }, 'u32');
    const of = (data: Float32Array | Uint32Array, width: number, ...rest: number[]): Tensor => {
      const out = data instanceof Uint32Array ? new Uint32Array(G * longest) : new Float32Array(G * longest * width);
      heads.forEach((slots, g) =>
        slots.forEach((slot, i) =>
          out.set(data.subarray(slot * width, (slot + 1) * width) as never, (g * longest + i) * width),
        ),
      );
      return ops.from({ data: out, shape: [G, longest, ...rest] }, data instanceof Uint32Array ? 'u32' : 'f32', rows);
    };
    const here = { ...at, slots: longest },
      marks = Float32Array.from({ length: G * n }, (_, slot) => Number(!leaves(slot))),
      counts = heads.map((slots) => slots.filter((slot) => !leaves(slot)).length),
      read = (signal: { readonly id: string }): Tensor => {
        const known: Record<string, () => Tensor> = {
          keys: () => of(layer.keys, d, d),
          values: () => of(layer.values, d, d),
          positions: () => of(layer.positions, 1),
          biases: () => of(biases, 1),
        };
        return (
          known[signal.id]?.() ??
          states.get(signal.id) ??
          initial(fold.needs.filter(isState).find(({ id }) => id === signal.id)!)
        );
      };
    const made = fold.run({
      at: here,
      ops: ops as Ops,
      draft: emptyDraft({ at: here, budgets: counts, read }, ops),
      kept: ops.select(of(marks, 1), ops.from({ data: Float32Array.from(counts), shape: [G, 1] })),
      read: read as never,
    });
    for (const [id, x] of made) {
      const state = fold.needs.filter(isState).find((need) => need.id === id);
      claim(state !== undefined, () => `it writes the state ${id}, expected one that it declares`);
      const shape = initial(state!).shape; // claimed
      claim(
        state!.state.kind !== 'sequence' || x.shape.join() === shape.join(),
        () => `its state '${state!.as}' is [${x.shape.join(', ')}], expected [${shape.join(', ')}]`,
      );
      states.set(id, x);
    }
    for (const slot of heads.flat()) if (leaves(slot)) gone.add(slot);
  }
  const { masses, values } = runAttend(
    adds,
    { at, ops, read: (signal) => states.get(signal.id) ?? initial(signal as State) },
    {
      queries: ops.from({ data: q.slice(), shape: [H, m, d] }),
      positions: ops.from({ data: Uint32Array.from({ length: m }, (_, i) => at.length + i), shape: [1, m] }, 'u32'),
    },
  );
  return { masses: readCpu(masses).data as Float32Array, values: readCpu(values).data as Float32Array };
}

/** Claims that two terms agree, where they have a mass. */
function expectAlike(what: string, got: Term, want: Term, d: number, most = 1e-3): void {
  want.masses.forEach((mass, i) => {
    const nothing = mass <= NOTHING;
    claim(
      nothing ? got.masses[i] <= NOTHING : Math.abs(got.masses[i] - mass) <= most,
      () => `${what}: query ${i} has the mass e^${got.masses[i]}, expected e^${mass}`,
    );
    for (let c = i * d; !nothing && c < (i + 1) * d; c++)
      claim(
        Math.abs(got.values[c] - want.values[c]) <= most * Math.max(1, Math.abs(want.values[c])),
        () => `${what}: query ${i} has the value ${got.values[c]}, expected ${want.values[c]}`,
      );
  });
}

/** What every piece promises that folds slots and adds them to attention. */
export const folding: Claims<AnyFold> = {
  /** Where nothing has left, nothing is added; an event in which nothing leaves changes nothing. */
  nothing: (piece) =>
    fc.property(cases(), (some) => {
      const { masses } = folded(piece, some, [() => false]);
      masses.forEach((mass, i) => claim(mass <= NOTHING, () => `nothing left: query ${i} has the mass e^${mass}`));
      const first: Members = (slot) => some.group[slot] === 0,
        once = folded(piece, some, [first]);
      expectAlike('then nothing left', folded(piece, some, [first, () => false]), once, some.at.headDim, 1e-6);
    }),
  /** One slot that left counts as it did: its mass and its value. */
  single: (piece) =>
    fc.property(cases(), (some) => {
      const { at, layer, n, q, biases } = some,
        { headDim: d, queryHeads: H, kvHeads: G, scale = 1 / Math.sqrt(d), softcap } = at,
        m = q.length / (H * d),
        chosen = layer.lengths.map((length, g) => g * n + (some.group[g * n] % length)),
        { masses, values } = folded(piece, some, [(slot) => chosen.includes(slot)]),
        want = { masses: masses.slice(), values: values.slice() };
      for (let h = 0; h < H; h++)
        for (let i = 0; i < m; i++) {
          const slot = chosen[Math.floor((h * G) / H)],
            row = h * m + i;
          let dot = 0;
          for (let c = 0; c < d; c++) dot += q[row * d + c] * layer.keys[slot * d + c];
          const x = dot * scale;
          want.masses[row] = (softcap === undefined ? x : softcap * Math.tanh(x / softcap)) + biases[slot];
          want.values.set(layer.values.subarray(slot * d, (slot + 1) * d), row * d);
        }
      expectAlike('one slot left', { masses, values }, want, d, 1e-4);
    }),
  /** Two events are one in which the slots of both leave, in either order. */
  joined: (piece) =>
    fc.property(cases(), (some) => {
      const [a, b]: readonly Members[] = [0, 1].map((group) => (slot) => some.group[slot] === group),
        want = folded(piece, some, [(slot) => a(slot) || b(slot)]);
      expectAlike('one group left after the other', folded(piece, some, [a, b]), want, some.at.headDim);
      expectAlike('the other group left first', folded(piece, some, [b, a]), want, some.at.headDim);
    }),
  /** A head's term is made of its own slots. */
  heads: (piece) =>
    fc.property(cases(), (some) => {
      const { at, n, q } = some,
        { kvHeads: G, headDim: d } = at,
        per = q.length / (G * d),
        all = folded(piece, some, [(slot) => some.group[slot] === 0]);
      for (let g = 0; g < G; g++) {
        const own = folded(piece, some, [(slot) => Math.floor(slot / n) === g && some.group[slot] === 0]),
          cut = ({ masses, values }: Term): Term => ({
            masses: masses.subarray(g * per, (g + 1) * per),
            values: values.subarray(g * per * d, (g + 1) * per * d),
          });
        expectAlike(`only slots of head ${g} left`, cut(own), cut(all), d, 1e-5);
      }
    }),
};

/**
 * Returns the laws of a piece that folds the slots that leave into state and adds that to attention: nothing that left adds
 * nothing, one slot counts as it did, events join in any order, and heads keep to themselves.
 */
export const foldLaws: (piece: AnyFold, options?: LawOptions) => Suite = lawsOf(folding);
