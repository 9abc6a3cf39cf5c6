import { retain } from '@kv/cpu';
import type { Cache, Piece, Policy, Tokens } from '@kv/core';
import { engine } from '../../src/engine.ts';
import type { EngineHost, EngineOptions } from '../../src/engine.ts';
import { NaiveEngine } from '../naive-engine.ts';
import { field } from './field.ts';
import type { Field } from './field.ts';

type Engine = typeof NaiveEngine;
const host = (Made: Engine): EngineHost => ({
  vocab: NaiveEngine.vocab,
  open: async (policy) => new Made(policy),
});

/** An engine that does not expose its keys and values. */
class Worded extends NaiveEngine {
  ids: readonly number[] = [];
  override async feed(ids: readonly number[]): Promise<void> {
    await super.feed(ids);
    this.ids = [...this.ids, ...ids];
  }
  override async cache(): Promise<Cache> {
    const { layers, ...rest } = await super.cache(),
      tokens = { ids: this.ids, text: '', offsets: this.ids.map(() => [0, 0] as const) };
    return { ...rest, tokens, layers: layers.map(({ positions = { data: [], shape: [] } }) => ({ positions })) };
  }
  override async fork(): Promise<NaiveEngine> {
    return Object.assign(new Worded(this.policy), await super.fork(), { ids: this.ids });
  }
}

/** Keeps what the policy keeps of another cache than its own. */
const misled = (Base: Engine, as: (cache: Cache, engine: NaiveEngine) => Cache): Engine =>
  class extends Base {
    override async evict(budget: number): Promise<void> {
      const { slots, state } = await retain(this.policy, as(await this.cache(), this), { budget });
      this.slots = this.slots.map((heads, l) => heads.map((row, g) => Array.from(slots[l][g], (slot) => row[slot])));
      this.state = state;
    }
  };
/** An engine with a fault after each event. */
const faulty = <E extends NaiveEngine>(Base: new (policy: Policy) => E, after: (engine: E) => void): Engine =>
  class Faulty extends (Base as unknown as Engine) {
    override async evict(budget: number): Promise<void> {
      await super.evict(budget);
      after(this as unknown as E);
    }
    override async fork(): Promise<NaiveEngine> {
      return Object.assign(new Faulty(this.policy), await super.fork());
    }
  };

const part = ({ ids, offsets, text }: Tokens, places: readonly number[]): Tokens => ({
  ids: places.map((at) => ids[at]),
  offsets: places.map((at) => offsets[at]),
  text,
});

/** Faults that any engine may have. */
const mutants = (Base: Engine) => ({
  /** Renumbers positions after an event, for the policy. */
  places: misled(Base, (cache, { slots }) => ({
    ...cache,
    layers: cache.layers.map(({ positions, ...layer }) => ({
      ...layer,
      positions: {
        data: Uint32Array.from(positions?.data ?? [], (_, i) => i % slots[0][0].length),
        shape: positions?.shape ?? [],
      },
    })),
    length: slots[0][0].length,
    // reads the id of a token, not its position
    ...(cache.tokens && {
      tokens: part(
        cache.tokens,
        slots[0][0].map(({ position }) => position),
      ),
    }),
  })),
  remembers: faulty(Base, (engine) => {
    engine.state = new Map();
  }),
  ascending: faulty(Base, (engine) => {
    for (const row of engine.slots.flat()) row.reverse();
  }),
  /** Keeps one slot more than asked for. */
  budget: class extends Base {
    override async evict(budget: number): Promise<void> {
      await super.evict(budget + 1);
    }
  },
  /** Leaves out the pieces that force slots. */
  forced: class extends Base {
    constructor(policy: Policy) {
      const { atoms } = policy,
        free = atoms.filter((atom) => !('name' in atom && atom.name === 'mandatory'));
      super({ ...(policy as Piece), atoms: free } as unknown as Policy);
    }
  },
  /** Reports a shorter length after an event. */
  length: class extends Base {
    short = 0;
    override async cache(): Promise<Cache> {
      return { ...(await super.cache()), length: this.length - this.short };
    }
    override async evict(budget: number): Promise<void> {
      this.short = 0;
      await super.evict(budget);
      this.short = 1;
    }
  },
  /** Drops its oldest slot if an event fails. */
  whole: class extends Base {
    override async evict(budget: number): Promise<void> {
      const before = this.slots;
      try {
        await super.evict(budget);
      } catch (error) {
        this.slots = before.map((heads) => heads.map((row) => row.slice(1)));
        throw error;
      }
    }
  },
  forks: class extends Base {
    override async fork(): Promise<NaiveEngine> {
      return this;
    }
  },
});
const hosts = <N extends string>(made: Readonly<Record<N, Engine>>): Record<N, EngineHost> =>
  Object.fromEntries(Object.entries<Engine>(made).map(([law, Made]) => [law, host(Made)])) as Record<N, EngineHost>;

export const engines: Field = field<keyof typeof engine, EngineHost, EngineOptions>('engine', engine, {
  good: host(NaiveEngine),
  mutants: hosts({
    ...mutants(NaiveEngine),
    /** Gives the policy no values. */
    kept: misled(NaiveEngine, (cache) => ({
      ...cache,
      layers: cache.layers.map((layer) => ({
        ...layer,
        ...(layer.values && { values: { ...layer.values, data: new Float32Array(layer.values.data.length) } }),
      })),
    })),
    /** Swaps the values of a head's first two kept slots. */
    numbers: faulty(NaiveEngine, ({ slots }) => {
      for (const row of slots.flat())
        [row[0], row[1]] = [
          { ...row[0], value: row[1].value },
          { ...row[1], value: row[0].value },
        ];
    }),
  }),
});

export const wordedEngines: Field = field<keyof typeof engine, EngineHost, EngineOptions>('engine of texts', engine, {
  good: host(Worded),
  options: { texts: true },
  mutants: hosts({
    ...mutants(Worded),
    /** Gives the policy the same token everywhere. */
    kept: misled(Worded, (cache) => ({
      ...cache,
      ...(cache.tokens && { tokens: { ...cache.tokens, ids: cache.tokens.ids.map(() => 0) } }),
    })),
    /** Changes the token of a kept slot. */
    numbers: faulty(Worded, (engine) => {
      const [[[{ position }]]] = engine.slots;
      engine.ids = engine.ids.map((id, at) => (at === position ? (id + 1) % NaiveEngine.vocab : id));
    }),
  }),
});
