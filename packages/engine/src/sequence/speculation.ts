import type { SamplingRule } from '../sampling.ts';
import type { Memory, PendingId, Output } from '../memory/memory.ts';

/**
 * Speculative steps of a sequence, in flight before the host knows their tokens: each is fed the id that the one before
 * gives, on the device.
 */
export class Speculation {
  readonly #memory: Pick<Memory, 'ahead'>;
  readonly #counts: { rolledBack: number };
  /** Resolves when every read of a rolled-back step has ended. */
  settled: Promise<unknown> = Promise.resolve();
  /** The output of each step. */
  readonly #outputs: Output[] = [];
  /** The id that each step is fed, and the one that the last gives. */
  #asked: PendingId[] = [];
  #draw: SamplingRule | undefined;
  /** The first of these ids, once known. */
  #token: number | undefined;

  /** @param counts `rolledBack` counts the steps that were rolled back */
  constructor(memory: Pick<Memory, 'ahead'>, counts: { rolledBack: number }) {
    [this.#memory, this.#counts] = [memory, counts];
  }

  /** Returns the id that follows `newest`. Before waiting for it, keeps up to `most` later steps in flight. */
  async next(
    newest: Output & Required<Pick<Output, 'ask'>>,
    draw: SamplingRule | undefined,
    most: number,
  ): Promise<number> {
    if (!this.#draws(draw)) this.rollback();
    this.#draw = draw;
    const ahead = this.#memory.ahead!; // an output that can be asked is of a memory that can start steps
    try {
      if (this.#asked.length === 0) this.#asked.push(newest.ask(draw));
      while (this.#outputs.length < most) {
        const output = ahead.start(this.#asked.at(-1)!, this.#outputs.length); // asked above
        this.#outputs.push(output);
        this.#asked.push(output.ask!(draw)); // an output of a memory that starts steps can be asked
      }
    } catch (error) {
      this.rollback();
      ahead.rollback(); // what a step had written before it failed
      throw error;
    }
    return (this.#token = await this.#asked[0].id);
  }

  /** Returns whether the ids of steps in flight are drawn by these options. */
  #draws({ temperature, topP, seed }: Partial<SamplingRule> = {}): boolean {
    return (
      this.#asked.length > 0 &&
      this.#draw?.temperature === temperature &&
      this.#draw?.topP === topP &&
      this.#draw?.seed === seed
    );
  }

  /** Commits the oldest step and returns its output, if it was fed this token. */
  commit(token: number): Output | undefined {
    if (this.#outputs.length === 0 || this.#token !== token) return undefined;
    this.#memory.ahead!.commit(token); // it started the step
    this.#token = undefined;
    this.#asked.shift();
    return this.#outputs.shift();
  }

  /** Drops the ids and rolls the steps back. */
  rollback(): void {
    const count = this.#outputs.length;
    if (this.#asked.length > 0) this.settled = Promise.allSettled(this.#asked.map(({ id }) => id));
    [this.#asked, this.#token] = [[], undefined];
    for (const output of this.#outputs.splice(0)) output.release();
    if (count > 0) this.#memory.ahead!.rollback(); // it started the steps
    this.#counts.rolledBack += count;
  }
}
