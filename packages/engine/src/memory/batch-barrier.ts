import type { BatchMembership } from './feed.ts';

/** A barrier: `take` runs when every remaining participant has submitted a request. */
export class BatchBarrier<Request> {
  readonly #take: (requests: readonly Request[]) => void;
  #waiting: Request[] = [];
  #present: number;

  constructor(count: number, take: (requests: readonly Request[]) => void) {
    [this.#present, this.#take] = [count, take];
  }

  submit(request: Request): void {
    this.#waiting.push(request);
    this.#takeIfComplete();
  }

  leave(): void {
    this.#present--;
    this.#takeIfComplete();
  }

  #takeIfComplete(): void {
    if (this.#waiting.length >= this.#present && this.#waiting.length > 0) this.#take(this.#waiting.splice(0));
  }
}

/** One participant of a barrier. `leave` counts once. */
export class BatchSlot<Request> implements BatchMembership {
  protected readonly barrier: BatchBarrier<Request>;
  #left = false;

  constructor(barrier: BatchBarrier<Request>) {
    this.barrier = barrier;
  }

  leave(): void {
    if (this.#left) return;
    this.#left = true;
    this.barrier.leave();
  }
}
