import type { At, Cell, Draft, Recall, Step } from './atoms.ts';

/** All keys of a type; one that is left out does not compile. */
const keysOf = <T>(keys: Readonly<Record<keyof T, true>>): readonly (keyof T)[] => Object.keys(keys) as (keyof T)[];
// marked as pure, so that packages that only make pieces do not carry them
const FIELDS = /* @__PURE__ */ keysOf<Omit<At, 'layer'>>({
  layers: true,
  queryHeads: true,
  kvHeads: true,
  headDim: true,
  step: true,
  promptLength: true,
  length: true,
  slots: true,
  aligned: true,
  budget: true,
  selectRows: true,
});
/** What a draft holds beside its state and checks. */
const IN_DRAFT = /* @__PURE__ */ keysOf<Omit<Draft, 'state' | 'checks'>>({
  scores: true,
  forced: true,
  banned: true,
  budgets: true,
  active: true,
  units: true,
  unitScores: true,
  kept: true,
  forcedBy: true,
  allottedBy: true,
  allotted: true,
  selectedBy: true,
});

/** Layers that a step may read something else in, one after the other, before it is taken to do so in all. */
const MISSES = 3;

const numbers = new WeakMap<At, number>();
/** A layer's number, for errors: nobody counts as having asked for it. */
export const layerOf = (at: At): number => numbers.get(at) ?? at.layer;

/** A place that notes down whether anybody asked for the layer's number, as the place that it stands for does. */
interface Asking {
  readonly at: At;
  asked: boolean;
}
function asking(at: At): Asking {
  const own = Object.fromEntries(FIELDS.map((field) => [field, at[field]])) as Omit<At, 'layer'>,
    note: Asking = {
      asked: false,
      at: {
        ...own,
        get layer() {
          note.asked = true;
          return at.layer;
        },
      },
    };
  numbers.set(note.at, layerOf(at));
  return note;
}

/** What a step read in a layer, and what it left there. */
interface Left {
  readonly at: At;
  readonly given: Draft;
  readonly values: readonly unknown[];
  readonly drafts: readonly Draft[];
}
/** Whether two drafts hold the same, not equal things. */
const sameDraft = (a: Draft, b: Draft): boolean =>
  a === b ||
  (IN_DRAFT.every((key) => a[key] === b[key]) &&
    a.state.size === b.state.size &&
    [...a.state].every(([id, tensor]) => b.state.get(id) === tensor) &&
    a.checks.length === b.checks.length &&
    a.checks.every((check, i) => check === b.checks[i]));

/**
 * What the steps of one policy, and those inside others, left where they ran last. It serves again where a step reads
 * the same tensors and did not ask for the layer's number: pieces of equal inputs have equal results. For the layers of
 * one block of tokens, as long as their tensors last.
 */
export class Known implements Recall {
  /** How many layers in a row each step read something else in. */
  readonly #misses = new Map<Step, number>();
  readonly #drafts = new Map<string, Draft>();
  readonly #withForced = new Map<Draft, Draft>();
  readonly #left = new Map<Step, Left>();
  readonly #asking = new WeakMap<At, Asking>();

  /** The draft that layers of equal budgets start from. */
  start(budgets: readonly number[], make: () => Draft): Draft {
    const key = budgets.join(),
      draft = this.#drafts.get(key) ?? make();
    this.#drafts.set(key, draft);
    return draft;
  }

  /** The draft that is selected from under a share. */
  withForced(draft: Draft, make: () => Draft): Draft {
    const made = this.#withForced.get(draft) ?? make();
    this.#withForced.set(draft, made);
    return made;
  }

  left(step: Step, cell: Cell, run: (cell: Cell) => readonly Draft[]): readonly Draft[] {
    const misses = this.#misses.get(step) ?? 0;
    if (misses > MISSES) return run(cell);
    const values = step.needs.map((signal) => cell.read(signal)),
      before = this.#left.get(step);
    if (
      before &&
      sameDraft(before.given, cell.draft) &&
      FIELDS.every((field) => before.at[field] === cell.at[field]) &&
      values.every((value, i) => value === before.values[i])
    ) {
      this.#misses.delete(step);
      return before.drafts;
    }
    this.#misses.set(step, misses + 1);
    const place = this.#asking.get(cell.at) ?? asking(cell.at);
    this.#asking.set(cell.at, place);
    place.asked = false;
    const drafts = run({ ...cell, at: place.at });
    if (place.asked) this.#left.delete(step);
    else this.#left.set(step, { at: cell.at, given: cell.draft, values, drafts });
    return drafts;
  }
}
