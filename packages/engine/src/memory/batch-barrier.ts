import type { BatchMembership } from './memory.ts';

/** A barrier: `take` runs when every remaining participant has submitted a request. */
export class BatchBarrier<A> {
  readonly #take: (asks: readonly A[]) => void;
  #waiting: A[] = [];
  #present: number;

  constructor(count: number, take: (asks: readonly A[]) => void) {
    [this.#present, this.#take] = [count, take];
  }

  bring(ask: A): void {
    this.#waiting.push(ask);
    this.#meet();
  }

  leave(): void {
    this.#present--;
    this.#meet();
  }

  #meet(): void {
    if (this.#waiting.length >= this.#present && this.#waiting.length > 0) this.#take(this.#waiting.splice(0));
  }
}

/** One participant of a barrier. `leave` counts once. */
export class BatchSlot<A> implements BatchMembership {
  readonly #meeting: BatchBarrier<A>;
  #left = false;

  constructor(meeting: BatchBarrier<A>) {
    this.#meeting = meeting;
  }

  leave(): void {
    if (this.#left) return;
    this.#left = true;
    this.#meeting.leave();
  }
}
