import { retain } from '@kv/core';
import type { Cache, Piece, Policy } from '@kv/core';
import { engine } from '../../src/engine.ts';
import type { EngineHost, EngineOptions } from '../../src/engine.ts';
import { NaiveEngine } from '../naive-engine.ts';
import { field } from './field.ts';
import type { Field } from './field.ts';

const host = (make: (policy: Policy) => NaiveEngine): EngineHost => ({
  vocab: NaiveEngine.vocab,
  open: async (policy) => make(policy),
});

/** An engine whose event is followed by a fault. */
class Faulty extends NaiveEngine {
  after(): void {}
  override async evict(budget: number): Promise<void> {
    await super.evict(budget);
    this.after();
  }
  override async fork(): Promise<NaiveEngine> {
    const copy = await super.fork();
    const { policy, slots, state, length } = copy;
    return Object.assign(new (this.constructor as typeof Faulty)(policy), { slots, state, length });
  }
}

/** Keeps by keys alone: as if no value had reached the policy. */
class Valueless extends NaiveEngine {
  override async evict(budget: number): Promise<void> {
    const cache = await this.cache(),
      blank = cache.layers.map((layer) => ({
        ...layer,
        ...(layer.values && { values: { ...layer.values, data: new Float32Array(layer.values.data.length) } }),
      })),
      { slots, state } = await retain(this.policy, { ...cache, layers: blank }, { budget });
    this.slots = this.slots.map((heads, l) => heads.map((row, g) => Array.from(slots[l][g], (slot) => row[slot])));
    this.state = state;
  }
}
/** Counts positions anew after an event, for the policy. */
class Renumbered extends NaiveEngine {
  override async evict(budget: number): Promise<void> {
    const cache = await this.cache(),
      counted = cache.layers.map(({ positions: _, ...layer }) => layer),
      { slots, state } = await retain(
        this.policy,
        { ...cache, layers: counted, length: this.slots[0][0].length },
        { budget },
      );
    this.slots = this.slots.map((heads, l) => heads.map((row, g) => Array.from(slots[l][g], (slot) => row[slot])));
    this.state = state;
  }
}
class Forgetful extends Faulty {
  override after(): void {
    this.state = new Map();
  }
}
/** The values of a head's first two kept slots change places. */
class Mixed extends Faulty {
  override after(): void {
    for (const row of this.slots.flat())
      [row[0], row[1]] = [
        { ...row[0], value: row[1].value },
        { ...row[1], value: row[0].value },
      ];
  }
}
class Backwards extends Faulty {
  override after(): void {
    for (const row of this.slots.flat()) row.reverse();
  }
}
/** One slot more than asked for. */
class Generous extends NaiveEngine {
  override async evict(budget: number): Promise<void> {
    await super.evict(budget + 1);
  }
}
/** Leaves out what forces slots. */
class Unforced extends NaiveEngine {
  constructor(policy: Policy) {
    const { atoms } = policy,
      free = atoms.filter((atom) => !('name' in atom && atom.name === 'mandatory'));
    super({ ...(policy as Piece), atoms: free } as unknown as Policy);
  }
}
/** Says after an event that it has seen less than it has. */
class Short extends NaiveEngine {
  short = 0;
  override async cache(): Promise<Cache> {
    return { ...(await super.cache()), length: this.length - this.short };
  }
  override async evict(budget: number): Promise<void> {
    this.short = 0;
    await super.evict(budget);
    this.short = 1;
  }
}
/** Drops its oldest slot where an event fails. */
class Eager extends NaiveEngine {
  override async evict(budget: number): Promise<void> {
    const before = this.slots;
    try {
      await super.evict(budget);
    } catch (error) {
      this.slots = before.map((heads) => heads.map((row) => row.slice(1)));
      throw error;
    }
  }
}
class Siamese extends NaiveEngine {
  override async fork(): Promise<NaiveEngine> {
    return this;
  }
}

export const engines: Field = field<keyof typeof engine, EngineHost, EngineOptions>('engine', engine, {
  good: host((policy) => new NaiveEngine(policy)),
  mutants: {
    kept: host((policy) => new Valueless(policy)),
    places: host((policy) => new Renumbered(policy)),
    remembers: host((policy) => new Forgetful(policy)),
    numbers: host((policy) => new Mixed(policy)),
    ascending: host((policy) => new Backwards(policy)),
    budget: host((policy) => new Generous(policy)),
    forced: host((policy) => new Unforced(policy)),
    length: host((policy) => new Short(policy)),
    whole: host((policy) => new Eager(policy)),
    forks: host((policy) => new Siamese(policy)),
  },
});
