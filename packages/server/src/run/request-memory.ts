import { setTimeout as delay } from 'node:timers/promises';
import { cancelledRefusal, Refusal } from '../protocol/refusal.ts';
import type { Job } from './job.ts';
import type { MemoryBudget } from './pool.ts';
import { closing } from './refusals.ts';

/** Bytes of requests beside their caches: text that is not read yet, and what is said and not taken. */
export class RequestMemory {
  readonly #pool: MemoryBudget;
  readonly #kept = new Set<Job>();
  /** Nothing more is waited for. */
  closing = false;

  constructor(pool: MemoryBudget) {
    this.#pool = pool;
  }

  /**
   * Promises bytes for the text of a request, once there are so many, until what is given back is called. @throws
   * Refusal with 413 for more than there are in all, with 499 once it is aborted, with 503 while the server closes
   */
  async hold(bytes: number, signal: AbortSignal): Promise<() => void> {
    const { requestLimit } = this.#pool;
    if (bytes > requestLimit)
      throw new Refusal(
        `the body may take ${bytes} bytes until it is read, more than the ${requestLimit} that requests have here: send less, and its 'content-length'`,
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

  /** Promises bytes for what a job says, if there are, until it is released. */
  keep(job: Job): boolean {
    if (!this.#pool.takeRequest(job.said)) return false;
    this.#kept.add(job);
    return true;
  }
  release(job: Job): void {
    if (this.#kept.delete(job)) this.#pool.giveRequest(job.said);
  }
}
