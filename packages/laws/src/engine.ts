import fc from 'fast-check';
import {
  compose,
  KvError,
  keys,
  mandatory,
  positions,
  scorer,
  selector,
  state,
  tokens,
  values,
  weightScorer,
} from '@kv/core';
import { retain } from '@kv/cpu';
import type { LayerContext, Cache, HostArray, Ops, Piece, Policy, RetainState, Tensor } from '@kv/core';
import { claim, lawsOf } from './law.ts';
import type { Claim, Claims, LawOptions } from './law.ts';

/** One sequence of an engine. */
export interface EngineSequence {
  /** Feeds tokens into the cache, without an event. */
  feed(ids: readonly number[]): Promise<void>;
  /** Runs one event under the policy that it was opened with, at the given number of slots per KV head. */
  evict(budget: number): Promise<void>;
  /**
   * Returns the present cache as core's `retain` reads it: keys, values and positions of every layer, and its length;
   * for an engine of texts positions, length and `tokens`.
   */
  cache(): Promise<Cache>;
  /** Returns an independent copy. */
  fork(): Promise<EngineSequence>;
}
/** An engine that hosts policies. */
export interface EngineHost {
  /** Vocabulary size: ids below it are tokens. */
  readonly vocab: number;
  /** Opens an empty sequence. */
  open(policy: Policy): Promise<EngineSequence>;
}
/** Options of `engineLaws`. */
export interface EngineOptions extends LawOptions {
  /** Keys are rotated when kept slots move together, so their numbers change. @defaultValue false */
  readonly turns?: boolean | undefined;
  /** Its keys and values cannot be read from outside: policies read tokens and positions. @defaultValue false */
  readonly texts?: boolean | undefined;
  /** Number of first slots that are never evicted, since policies force them. @defaultValue 0 */
  readonly sinks?: number | undefined;
}

const topK = selector('topK', {}, ({ ops, scores, budgets, ...masks }) => ops.select(scores, budgets, masks));
/** Scores by the lengths of keys and values, which two slots seldom share. */
const norms = weightScorer('norms', { needs: [keys, values] }, ({ ops, keys: k, values: v }) =>
  ops.add(ops.norm(k), ops.norm(v)),
);
/** Scores by token ids. */
const ids = weightScorer('ids', { needs: [tokens, positions] }, ({ ops, tokens: { ids: all }, positions: p }) =>
  ops.take(ops.from({ data: Float32Array.from(all, (id) => (37 * id) % 101), shape: [1, all.length] }), p),
);
const place = scorer('place', { needs: [positions] }, ({ ops, positions: p }) => {
  const turns = ops.mul(ops.float(p), 0.37);
  return ops.sub(turns, ops.map('floor', turns));
});
/** Scores newer slots higher. */
const order = (ops: Ops, { slots }: LayerContext): Tensor =>
  ops.from({ data: Float32Array.from({ length: slots }, (_, i) => i), shape: [1, slots] });
/**
 * Counts the events that a slot has been through and keeps the highest counts, which shows whether state is remembered.
 */
const seen = state('seen', { kind: 'slot', rows: 'kv' });
const memory = scorer('memory', { needs: [seen] }, ({ ops, at, seen: before }) => ({
  scores: ops.add(ops.mul(before, 1000), order(ops, at)),
  state: { seen: ops.add(before, 1) },
}));

/** Completes a scorer to a policy that this engine accepts. */
const ending = (start: Piece<'start', 'scores' | 'weights'>, { sinks = 0 }: EngineOptions): Policy =>
  sinks > 0 ? compose(start, mandatory({ sinks }), topK()) : compose(start, topK());
const byWorth = (options: EngineOptions): Policy => ending(options.texts ? ids() : norms(), options);
const byPlace = (options: EngineOptions): Policy => ending(place(), options);
const byMemory = (options: EngineOptions): Policy => ending(memory(), options);

/** Tokens and budgets of one case, with an event after each part of the text. */
interface Case {
  readonly parts: readonly (readonly number[])[];
  readonly budget: number;
}
const cases = (vocab: number, parts: number): fc.Arbitrary<Case> =>
  fc.record({
    parts: fc.array(fc.array(fc.nat(vocab - 1), { minLength: 6, maxLength: 12 }), {
      minLength: parts,
      maxLength: parts,
    }),
    budget: fc.integer({ min: 2, max: 5 }),
  });

/** Returns the positions that a layer's heads hold, in the order of its slots. */
function held(cache: Cache): number[][][] {
  return cache.layers.map(({ positions: p, lengths }, l) => {
    claim(p !== undefined, () => `layer ${l}: expected positions, got a layer without`);
    const { data, shape } = p as HostArray;
    return Array.from({ length: shape[0] }, (_, g) =>
      Array.from({ length: lengths?.[g] ?? shape[1] }, (__, i) => data[g * shape[1] + i]),
    );
  });
}
const text = (x: unknown): string => JSON.stringify(x);
/** Returns a cache's numbers as text, to be compared later. */
const numbers = ({ layers }: Cache): string =>
  text(layers.map((layer) => [layer.positions, layer.keys, layer.values].map((x) => x && Array.from(x.data))));

type Judge = (before: Cache, after: Cache, at: Case) => void | Promise<void>;
type Property = Claim<EngineHost, EngineOptions>;
/** Judges every event of a case; `judge` is made again for each case. */
const judged =
  (
    of: (options: EngineOptions) => Policy,
    judge: (policy: Policy, options: EngineOptions) => Judge,
    parts = 2,
  ): Property =>
  (host, options = {}) =>
    fc.asyncProperty(cases(host.vocab, parts), async (at) => {
      const policy = of(options),
        sequence = await host.open(policy),
        judges = judge(policy, options);
      for (const part of at.parts) {
        await sequence.feed(part);
        const before = await sequence.cache();
        await sequence.evict(at.budget);
        await judges(before, await sequence.cache(), at);
      }
    });

/** The event keeps exactly the positions that `retain` keeps of the same cache, with the state of earlier events. */
const keeps = (policy: Policy): Judge => {
  let remembered: RetainState = new Map();
  return async (before, after, { budget }) => {
    const want = await retain(policy, { ...before, state: remembered }, { budget }),
      got = held(after);
    remembered = want.state;
    for (const [l, heads] of want.positions.entries())
      for (const [g, row] of heads.entries())
        claim(
          row.every((p) => got[l][g].includes(p)),
          () => `layer ${l}, head ${g}: expected positions ${text([...row])} to be kept, got ${text(got[l][g])}`,
        );
  };
};
/** Judges every head of every layer after an event. */
const rows =
  (judge: (row: readonly number[], where: string, was: readonly number[], at: Case) => void) =>
  (): Judge =>
  (before, after, at) => {
    const was = held(before);
    for (const [l, heads] of held(after).entries())
      for (const [g, row] of heads.entries()) judge(row, `layer ${l}, head ${g}`, was[l][g], at);
  };

/** Claims about an engine that hosts policies. */
export const engine = {
  /** With given keys and values it keeps what `retain` keeps. */
  kept: judged(byWorth, keeps),
  /** Positions are original ones, whatever was evicted before. */
  places: judged(byPlace, keeps, 3),
  /** State that pieces write is there at the next event, for the slots that were kept. */
  remembers: judged(byMemory, keeps, 3),
  /** A kept slot has its keys and values, or its token, unchanged. */
  numbers: judged(byPlace, (_, { turns = false, texts = false }) => (before, after) => {
    for (const name of texts ? (['tokens'] as const) : turns ? (['values'] as const) : (['keys', 'values'] as const)) {
      const was = vectors(before, name);
      for (const [at, vector] of vectors(after, name))
        claim(was.get(at) === vector, () => `${name} of layer, head, position ${at} changed in an event`);
    }
  }),
  /** Positions ascend in every head. */
  ascending: judged(
    byPlace,
    rows((row, where) =>
      claim(
        row.every((p, i) => i === 0 || row[i - 1] < p),
        () => `${where}: expected ascending positions, got ${text(row)}`,
      ),
    ),
  ),
  /** No head holds more than the budget after an event. */
  budget: judged(
    byPlace,
    rows((row, where, _, { budget }) =>
      claim(row.length <= budget, () => `${where}: expected ${budget} slots at most, got ${row.length}`),
    ),
  ),
  /** Forced slots stay: the first position, and the newest. */
  forced: judged(
    ({ texts }) => compose(texts ? ids() : norms(), mandatory({ sinks: 1, recent: 1 }), topK()),
    rows((row, where, was) => {
      for (const p of [0, Math.max(...was)])
        claim(!was.includes(p) || row.includes(p), () => `${where}: expected position ${p} to stay, got ${text(row)}`);
    }),
  ),
  /** Its length counts all tokens, and new tokens come after them. */
  length: (host, options = {}) =>
    fc.asyncProperty(cases(host.vocab, 2), async ({ parts, budget }) => {
      const sequence = await host.open(byWorth(options));
      let fed = 0;
      for (const part of parts) {
        await sequence.feed(part);
        fed += part.length;
        const { length } = await sequence.cache();
        claim(length === fed, () => `expected a length of ${fed} tokens, got ${length}`);
        await sequence.evict(budget);
      }
    }),
  /** An event whose piece fails changes nothing, and the next one runs. */
  whole: (host, options = {}) =>
    fc.asyncProperty(cases(host.vocab, 1), async ({ parts: [part], budget }) => {
      let fails = true;
      const brittle = scorer('brittle', { needs: [positions] }, ({ ops, positions: p, at }) => {
        if (fails && at.layer === at.layers - 1) throw new KvError('brittle', 'expected to be left alone');
        return ops.float(p);
      });
      const sequence = await host.open(ending(brittle(), options));
      await sequence.feed(part);
      const before = numbers(await sequence.cache()),
        error: unknown = await sequence.evict(budget).then(
          () => undefined,
          (cause: unknown) => cause,
        );
      claim(error !== undefined, () => 'expected an event whose piece fails to fail, got one that did not');
      claim(numbers(await sequence.cache()) === before, () => 'expected a failed event to change nothing');
      fails = false;
      await sequence.evict(budget);
    }),
  /** A fork and its origin do not change each other. */
  forks: (host, options = {}) =>
    fc.asyncProperty(cases(host.vocab, 2), fc.boolean(), async ({ parts, budget }, origin) => {
      const one = await host.open(byPlace(options));
      await one.feed(parts[0]);
      const two = await one.fork(),
        [moves, rests] = origin ? [one, two] : [two, one],
        before = await rests.cache(),
        was = numbers(before);
      await moves.evict(budget);
      await moves.feed(parts[1]);
      const after = await rests.cache();
      claim(numbers(after) === was && after.length === before.length, () => 'expected forks apart, got one that moved');
    }),
} satisfies Claims<EngineHost, EngineOptions>;

/** Returns the vectors of a cache, or its token ids, by layer, head and position. */
function vectors(cache: Cache, name: 'keys' | 'values' | 'tokens'): ReadonlyMap<string, string> {
  const places = held(cache),
    of = (l: number, g: number, i: number, p: number): unknown => {
      if (name === 'tokens') return cache.tokens?.ids[p];
      const { data, shape } = cache.layers[l][name] as HostArray,
        [, n, d] = shape;
      return Array.from({ length: d }, (_, c) => data[(g * n + i) * d + c]);
    };
  return new Map(
    places.flatMap((heads, l) =>
      heads.flatMap((row, g) => row.map((p, i): [string, string] => [`${l}, ${g}, ${p}`, text(of(l, g, i, p))])),
    ),
  );
}

/** The laws of an engine that hosts policies, which every adapter must keep. */
export const engineLaws = lawsOf(engine, ['turns', 'texts', 'sinks']);
