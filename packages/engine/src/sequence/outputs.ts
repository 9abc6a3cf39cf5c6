import type { Output } from '../memory/feed.ts';

/** How many more sequences share an output: forks, until they are fed. */
const shared = new WeakMap<Output, number>();

/**
 * The outputs of what a sequence was last fed: logits of rows on the host or, until they are read, where the sequence
 * lives.
 */
export class Outputs {
  #all: readonly Output[] = [];
  #logits: readonly Float32Array[];

  /** @param logits of a sequence that was loaded */
  constructor(logits: readonly Float32Array[] = []) {
    this.#logits = logits;
  }

  /** Rows that are on the host, newest last. */
  get logits(): readonly Float32Array[] {
    return this.#logits;
  }

  get newest(): Output | undefined {
    return this.#all.at(-1);
  }

  /** Replaces the outputs. */
  replace(output?: Output): void {
    for (const before of this.#all) {
      const others = shared.get(before) ?? 0;
      if (others > 0) shared.set(before, others - 1);
      else before.release();
    }
    [this.#all, this.#logits] = [[], []];
    if (output) this.append(output);
  }

  /** Appends the output of later rows. */
  append(output: Output): void {
    this.#all = [...this.#all, output];
    if (output.logits) this.#logits = [...this.#logits, ...output.logits];
  }

  /** Returns the same outputs for a fork. */
  share(): Outputs {
    const copy = new Outputs(this.#logits);
    for (const output of this.#all) shared.set(output, (shared.get(output) ?? 0) + 1);
    copy.#all = this.#all;
    return copy;
  }

  /** Returns `logits`, read from the device if they are there. */
  async read(): Promise<readonly Float32Array[]> {
    if (this.#logits.length === 0) this.#logits = (await Promise.all(this.#all.map((output) => output.read()))).flat();
    return this.#logits;
  }
}
