import type { LayerContext, StepInput, DraftSelection, Recall, Step } from '../piece/atoms.ts';

/** Stop caching a step after this many consecutive misses. */
const MISSES = 3;

const numbers = new WeakMap<LayerContext, number>();
/** A layer's number; reading it here does not mark the step as dependent on the layer. */
export const layerOf = (at: LayerContext): number => numbers.get(at) ?? at.layer;

/** A copy of `at` that notes whether the layer's number is read. */
interface Asking {
  readonly at: LayerContext;
  asked: boolean;
}
function asking(at: LayerContext): Asking {
  const layer = {
      enumerable: true,
      get(): number {
        note.asked = true;
        return at.layer;
      },
    },
    // a spread would read the layer's number of a place that is such a copy itself
    copy = Object.defineProperties({}, { ...Object.getOwnPropertyDescriptors(at), layer }) as LayerContext,
    note: Asking = { asked: false, at: copy };
  numbers.set(copy, layerOf(at));
  return note;
}

/** What a step read in a layer, and what it left there. */
interface Left {
  readonly at: LayerContext;
  readonly given: DraftSelection;
  readonly values: readonly unknown[];
  readonly drafts: readonly DraftSelection[];
}
/** Whether two records hold the same values under the same names, but for some names. */
function sameFields<T extends object>(a: T, b: T, except: readonly (keyof T)[]): boolean {
  return (
    a === b ||
    ([...Object.keys(a), ...Object.keys(b)] as (keyof T)[]).every((key) => except.includes(key) || a[key] === b[key])
  );
}
/** Whether two drafts hold the same, not equal things. */
const sameDraft = (a: DraftSelection, b: DraftSelection): boolean =>
  a === b ||
  (sameFields(a, b, ['state', 'checks']) &&
    a.state.size === b.state.size &&
    [...a.state].every(([id, tensor]) => b.state.get(id) === tensor) &&
    a.checks.length === b.checks.length &&
    a.checks.every((check, i) => check === b.checks[i]));

/**
 * Reuses the result of a step in later layers where it reads the same tensors and did not read the layer's number, such
 * as scores of positions or text. Serves the layers of one block of tokens, as long as their tensors last.
 *
 * @remarks It watches for that number so that no piece has to declare what it reads: one of a third party that depends
 * on the layer is never served another layer's result.
 */
export class StepCache implements Recall {
  /** How many layers in a row each step read something else in. */
  readonly #misses = new Map<Step, number>();
  readonly #drafts = new Map<string, DraftSelection>();
  readonly #withForced = new Map<DraftSelection, DraftSelection>();
  readonly #left = new Map<Step, Left>();
  readonly #asking = new WeakMap<LayerContext, Asking>();

  /** The draft that layers of equal budgets start from. */
  start(budgets: readonly number[], make: () => DraftSelection): DraftSelection {
    const key = budgets.join(),
      draft = this.#drafts.get(key) ?? make();
    this.#drafts.set(key, draft);
    return draft;
  }

  /** The draft that is selected from under a share. */
  withForced(draft: DraftSelection, make: () => DraftSelection): DraftSelection {
    const made = this.#withForced.get(draft) ?? make();
    this.#withForced.set(draft, made);
    return made;
  }

  left(step: Step, cell: StepInput, run: (cell: StepInput) => readonly DraftSelection[]): readonly DraftSelection[] {
    const misses = this.#misses.get(step) ?? 0;
    if (misses > MISSES) return run(cell);
    const values = step.needs.map((signal) => cell.read(signal)),
      before = this.#left.get(step);
    if (
      before &&
      sameDraft(before.given, cell.draft) &&
      sameFields(before.at, cell.at, ['layer']) &&
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
