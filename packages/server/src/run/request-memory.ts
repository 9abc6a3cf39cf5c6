import { setTimeout as delay } from 'node:timers/promises';
import { cancelledRefusal, Refusal } from '../protocol/refusal.ts';
import type { Job } from './job.ts';
import type { MemoryBudget } from './memory-budget.ts';
import { closing } from './refusals.ts';

/** Reservations of requests apart from their caches: for text not yet tokenized and for unread events. */
export class RequestMemory {
  readonly #pool: MemoryBudget;
  readonly #kept = new Set<Job>();
  /** Set while the server closes: `hold` then throws instead of waiting. */
  closing = false;

  constructor(pool: MemoryBudget) {
    this.#pool = pool;
  }

  /**
   * Waits until `bytes` can be reserved for the text of a request. Returns the function that releases them.
   * @param told whether the client has said how long its body is
   * @throws Refusal with 413 above the limit for all requests, with 499 once aborted, with 503 while the server closes
   */
  async hold(bytes: number, signal: AbortSignal, told = true): Promise<() => void> {
    const { requestLimit } = this.#pool;
    if (bytes > requestLimit)
      throw new Refusal(
        `the body may take ${bytes} bytes until it is read, more than the ${requestLimit} that requests have here (an eighth of the server's memory): send ${told ? 'less' : "its length in the header 'content-length'"}`,
        { status: 413 },
      );
    while (!this.#pool.takeRequest(bytes)) {
      if (this.closing) throw closing();
      if (signal.aborted) throw cancelledRefusal();
      await delay(20);
    }
    let held = bytes;
    return () => {
      this.#pool.giveRequest(held);
      held = 0;
    };
  }

  /** Reserves bytes for a job's events until `release`, if they are free. Returns whether it did. */
  keep(job: Job): boolean {
    if (!this.#pool.takeRequest(job.unreadBytes)) return false;
    this.#kept.add(job);
    return true;
  }
  release(job: Job): void {
    if (this.#kept.delete(job)) this.#pool.giveRequest(job.unreadBytes);
  }
}
