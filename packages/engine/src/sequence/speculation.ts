import { SAMPLING } from '../sampling/options.ts';
import type { SamplingRule } from '../sampling/sampler.ts';
import type { ActivePolicy } from '../memory/active-policy.ts';
import type { SpeculativeSteps } from '../memory/caches.ts';
import type { Output, PendingId } from '../memory/feed.ts';

/** An output on a device, on whose next id a step may start. */
type DeviceOutput = Output & Required<Pick<Output, 'nextPending'>>;

/** Whether a step may start on an output's next id before the host knows it. */
export const isOnDevice = (output: Output): output is DeviceOutput => output.nextPending !== undefined;

const OPTIONS = Object.keys(SAMPLING) as readonly (keyof typeof SAMPLING)[];

/**
 * Speculative steps of a sequence, in flight before the host knows their tokens: each is fed the id that the one before
 * gives, on the device.
 */
export class Speculation {
  readonly #steps: SpeculativeSteps;
  readonly #counts: { rolledBack: number };
  /** Resolves when every read of a rolled-back step has ended. */
  settled: Promise<unknown> = Promise.resolve();
  /** The output of each step. */
  readonly #outputs: Output[] = [];
  /** The id that each step is fed, and the one that the last gives. */
  #ids: PendingId[] = [];
  #draw: SamplingRule | undefined;
  /** The first of these ids, once known. */
  #token: number | undefined;

  /** @param counts `rolledBack` counts the steps that were rolled back */
  constructor(steps: SpeculativeSteps, counts: { rolledBack: number }) {
    [this.#steps, this.#counts] = [steps, counts];
  }

  /** Returns the id that follows `newest`. Before waiting for it, keeps up to `most` later steps in flight. */
  async next(
    newest: DeviceOutput,
    draw: SamplingRule | undefined,
    most: number,
    active: ActivePolicy,
  ): Promise<number> {
    if (!this.#draws(draw)) this.rollback();
    this.#draw = draw;
    try {
      if (this.#ids.length === 0) this.#ids.push(newest.nextPending(draw));
      while (this.#outputs.length < most) {
        const output = this.#steps.start(this.#ids.at(-1)!, this.#outputs.length, active); // never empty here
        this.#outputs.push(output);
        this.#ids.push(output.nextPending!(draw)); // a started step's output is on the device
      }
    } catch (error) {
      this.rollback();
      this.#steps.rollback(); // what a step had written before it failed
      throw error;
    }
    return (this.#token = await this.#ids[0].id);
  }

  /** Returns whether the ids of steps in flight are drawn by this rule. */
  #draws(draw: SamplingRule | undefined): boolean {
    const before = this.#draw;
    return this.#ids.length > 0 && !draw?.followsIds && OPTIONS.every((option) => before?.[option] === draw?.[option]);
  }

  /** Commits the oldest step and returns its output, if it was fed this token. */
  commit(token: number): Output | undefined {
    if (this.#outputs.length === 0 || this.#token !== token) return undefined;
    this.#steps.commit(token);
    this.#token = undefined;
    this.#ids.shift();
    return this.#outputs.shift();
  }

  /** Drops the ids and rolls the steps back. */
  rollback(): void {
    const count = this.#outputs.length;
    if (this.#ids.length > 0) this.settled = Promise.allSettled(this.#ids.map(({ id }) => id));
    [this.#ids, this.#token] = [[], undefined];
    for (const output of this.#outputs.splice(0)) output.release();
    if (count > 0) this.#steps.rollback();
    this.#counts.rolledBack += count;
  }
}
