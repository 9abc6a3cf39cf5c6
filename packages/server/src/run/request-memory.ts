import { setTimeout as delay } from 'node:timers/promises';
import { Refusal } from '../protocol/refusal.ts';
import type { Job } from './job.ts';
import type { Pool } from './pool.ts';
import { cancelled, closing } from './refusals.ts';

/** Bytes of requests beside their caches: text that is not read yet, and what is said and not taken. */
export class RequestMemory {
  readonly #pool: Pool;
  readonly #kept = new Set<Job>();
  #bytes = 0;
  /** Nothing more is waited for. */
  closing = false;

  constructor(pool: Pool) {
    this.#pool = pool;
  }

  get bytes(): number {
    return this.#bytes;
  }

  /**
   * Promises bytes for the text of a request, once there are so many, until what is given back is called. @throws
   * Refusal with 413 for more than there are in all, with 499 once it is aborted, with 503 while the server closes
   */
  async hold(bytes: number, signal: AbortSignal): Promise<() => void> {
    if (bytes > this.#pool.limit)
      throw new Refusal(
        `the body may need ${bytes} bytes until it is read, more than the ${this.#pool.limit} that there are: send less, with its 'content-length'`,
        { status: 413 },
      );
    while (!this.#pool.take(bytes)) {
      if (this.closing) throw closing();
      if (signal.aborted) throw cancelled();
      await delay(20);
    }
    this.#bytes += bytes;
    let held = bytes;
    return () => {
      this.#bytes -= held;
      this.#pool.give(held);
      held = 0;
    };
  }

  /** What a job says is promised, and held until it is let go. */
  keep(job: Job): void {
    this.#kept.add(job);
    this.#bytes += job.said;
  }
  release(job: Job): void {
    if (!this.#kept.delete(job)) return;
    this.#bytes -= job.said;
    this.#pool.give(job.said);
  }
}
