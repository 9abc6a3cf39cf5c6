import type { AnswerChoice } from './answer-choice.ts';
import type { Job } from './job.ts';

/** The jobs of a scheduler by state: a job waits, then its prompt is read, then its answers are generated. */
export class JobQueues {
  readonly waiting: Job[] = [];
  readonly reading: Job[] = [];
  readonly answering: Job[] = [];

  get all(): readonly Job[] {
    return [...this.waiting, ...this.reading, ...this.answering];
  }
  /** Answers that are being generated. */
  get choices(): readonly AnswerChoice[] {
    return this.answering.flatMap(({ choices }) => choices);
  }
  /** Answers that are being generated, or will be once their prompts are read. */
  get running(): number {
    return this.choices.length + this.reading.reduce((sum, { request }) => sum + request.n, 0);
  }
  get counts(): { readonly waiting: number; readonly reading: number; readonly answering: number } {
    return { waiting: this.waiting.length, reading: this.reading.length, answering: this.choices.length };
  }
  /** Estimates the seconds until a place is free: jobs waiting per answer being generated, from 1 to 60. */
  get retryAfter(): number {
    return Math.max(1, Math.min(60, Math.ceil(this.waiting.length / Math.max(1, this.choices.length))));
  }

  remove(job: Job): void {
    for (const queue of [this.waiting, this.reading, this.answering]) {
      const at = queue.indexOf(job);
      if (at >= 0) queue.splice(at, 1);
    }
  }
}
