/** Work limits of a rendering, and what each character and value of the conversation adds to them. */
const LIMITS = {
  steps: { base: 2 ** 17, each: 2 ** 9 },
  units: { base: 2 ** 25, each: 2 ** 6 },
  value: { base: 2 ** 22, each: 2 ** 2 },
} as const;

/** Work units of passing on, inspecting or creating a list item. */
export const ITEM = 16;

/**
 * Counts the work of a rendering: nodes evaluated, characters and items processed or created. The limits grow with the
 * conversation only, so that no template can lift them.
 * @throws Error from each method once a limit is reached
 */
export class RenderWork {
  #steps: number;
  #units: number;
  readonly #value: number;
  readonly #limits: { readonly steps: number; readonly units: number };

  constructor(conversation: readonly unknown[]) {
    const size = sizeOf(conversation);
    const limit = ({ base, each }: (typeof LIMITS)[keyof typeof LIMITS]): number => base + each * size;
    this.#steps = limit(LIMITS.steps);
    this.#units = limit(LIMITS.units);
    this.#value = limit(LIMITS.value);
    this.#limits = { steps: this.#steps, units: this.#units };
  }

  /** Counts a node. */
  step(): void {
    if (--this.#steps < 0) throw new Error(`more than ${this.#limits.steps} steps`);
  }

  /** Counts characters and items that are processed. */
  spend(units: number): void {
    this.#units -= units;
    if (!(this.#units >= 0)) throw new Error(`work on more than ${this.#limits.units} characters and items together`);
  }

  /** Counts what is about to be created, `before` of which has been counted already. */
  made(size: number, before = 0): void {
    if (!(before + size <= this.#value)) throw new Error(`a value of ${before + size} characters or items`);
    this.spend(size);
  }
}

/** Returns the number of characters and values in the template's input. */
function sizeOf(value: unknown): number {
  if (typeof value === 'string') return 1 + value.length;
  if (typeof value !== 'object' || value === null) return 1;
  return Object.entries(value).reduce((sum, [name, inner]) => sum + name.length + sizeOf(inner), 1);
}
