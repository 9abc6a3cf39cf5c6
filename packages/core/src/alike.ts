import type { At, Cell, Draft, Step } from './atoms.ts';

const numbers = new WeakMap<At, number>();
/** A layer's number, for errors: nobody counts as having asked for it. */
export const layerOf = (at: At): number => numbers.get(at) ?? at.layer;

/** A place that notes down whether anybody asked for the layer's number. */
interface Asking {
  readonly at: At;
  asked: boolean;
}
function asking(at: At): Asking {
  const layer = layerOf(at),
    note: Asking = {
      asked: false,
      at: {
        ...at,
        get layer() {
          note.asked = true;
          return layer;
        },
      },
    };
  numbers.set(note.at, layer);
  return note;
}

/** What a step read in a layer, and what it left there. */
interface Left {
  readonly at: At;
  readonly given: Draft;
  readonly values: readonly unknown[];
  readonly draft: Draft;
}
const FIELDS = [
  'layers',
  'queryHeads',
  'kvHeads',
  'headDim',
  'step',
  'promptLength',
  'length',
  'slots',
  'aligned',
  'budget',
  'selectRows',
] as const satisfies readonly (keyof At)[];

/**
 * What the steps of one policy left in the last layer that they ran over. It serves the next layer, too, where a step
 * reads the same tensors there and did not ask for the layer's number: pieces of equal inputs have equal results. For
 * the layers of one block of tokens, as long as their tensors last.
 */
export class Known {
  readonly #drafts = new Map<string, Draft>();
  readonly #left = new Map<Step, Left>();
  readonly #asking = new WeakMap<At, Asking>();

  /** The draft that layers of equal budgets start from. */
  start(budgets: readonly number[], make: () => Draft): Draft {
    const key = budgets.join(),
      draft = this.#drafts.get(key) ?? make();
    this.#drafts.set(key, draft);
    return draft;
  }

  /** What a step leaves in a layer: as in the one before, where it cannot tell them apart, else as it `run`s. */
  left(step: Step, cell: Cell, run: (cell: Cell) => Draft): Draft {
    const values = step.needs.map((signal) => cell.read(signal)),
      before = this.#left.get(step);
    if (
      before &&
      before.given === cell.draft &&
      FIELDS.every((field) => before.at[field] === cell.at[field]) &&
      values.every((value, i) => value === before.values[i])
    )
      return before.draft;
    const place = this.#asking.get(cell.at) ?? asking(cell.at);
    this.#asking.set(cell.at, place);
    place.asked = false;
    const draft = run({ ...cell, at: place.at });
    if (place.asked) this.#left.delete(step);
    else this.#left.set(step, { at: cell.at, given: cell.draft, values, draft });
    return draft;
  }
}
