import type { LayerContext, StepInput, DraftSelection, StepResults, Step } from '../piece/atoms.ts';

/** Stop caching a step after this many consecutive misses. */
const MISSES = 3;

const numbers = new WeakMap<LayerContext, number>();
/** Returns a layer's number. Reading it here does not mark the step as layer-dependent. */
export const layerOf = (at: LayerContext): number => numbers.get(at) ?? at.layer;

/** A copy of `at` that records whether the layer's number is read. */
interface ProbedContext {
  readonly at: LayerContext;
  layerRead: boolean;
}
function probe(at: LayerContext): ProbedContext {
  const layer = {
      enumerable: true,
      get(): number {
        note.layerRead = true;
        return at.layer;
      },
    },
    // not a spread: if `at` is such a copy itself, that would read its layer number
    copy = Object.defineProperties({}, { ...Object.getOwnPropertyDescriptors(at), layer }) as LayerContext,
    note: ProbedContext = { layerRead: false, at: copy };
  numbers.set(copy, layerOf(at));
  return note;
}

/** What a step read and returned in a layer. */
interface Left {
  readonly at: LayerContext;
  readonly given: DraftSelection;
  readonly values: readonly unknown[];
  readonly drafts: readonly DraftSelection[];
}
/** Whether two records hold the same values under the same names, apart from the names in `except`. */
function sameFields<T extends object>(a: T, b: T, except: readonly (keyof T)[]): boolean {
  return (
    a === b ||
    ([...Object.keys(a), ...Object.keys(b)] as (keyof T)[]).every((key) => except.includes(key) || a[key] === b[key])
  );
}
/** Whether two drafts hold identical (not merely equal) values. */
const sameDraft = (a: DraftSelection, b: DraftSelection): boolean =>
  a === b ||
  (sameFields(a, b, ['state', 'checks']) &&
    a.state.size === b.state.size &&
    [...a.state].every(([id, tensor]) => b.state.get(id) === tensor) &&
    a.checks.length === b.checks.length &&
    a.checks.every((check, i) => check === b.checks[i]));

/**
 * Reuses the result of a step in later layers that give it the same tensors, if it did not read the layer's number, as
 * for scores of positions or text. Serves the layers of one block of tokens, as long as their tensors last.
 *
 * @remarks Reads of the layer's number are detected, so that no piece has to declare them: a third-party piece that
 * depends on the layer is never given another layer's result.
 */
export class StepCache implements StepResults {
  /** Number of consecutive misses per step. */
  readonly #misses = new Map<Step, number>();
  readonly #drafts = new Map<string, DraftSelection>();
  readonly #withForced = new Map<DraftSelection, DraftSelection>();
  readonly #left = new Map<Step, Left>();
  readonly #probes = new WeakMap<LayerContext, ProbedContext>();

  /** Returns the start draft, shared by layers of equal budgets. */
  start(budgets: readonly number[], make: () => DraftSelection): DraftSelection {
    const key = budgets.join(),
      draft = this.#drafts.get(key) ?? make();
    this.#drafts.set(key, draft);
    return draft;
  }

  /** Returns the draft that a selector reads under a budget that is a share. */
  withForced(draft: DraftSelection, make: () => DraftSelection): DraftSelection {
    const made = this.#withForced.get(draft) ?? make();
    this.#withForced.set(draft, made);
    return made;
  }

  reuse(step: Step, cell: StepInput, run: (cell: StepInput) => readonly DraftSelection[]): readonly DraftSelection[] {
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
    const place = this.#probes.get(cell.at) ?? probe(cell.at);
    this.#probes.set(cell.at, place);
    place.layerRead = false;
    const drafts = run({ ...cell, at: place.at });
    if (place.layerRead) this.#left.delete(step);
    else this.#left.set(step, { at: cell.at, given: cell.draft, values, drafts });
    return drafts;
  }
}
