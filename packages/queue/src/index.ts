export { openQueue } from './job-queue.ts';
export type { QueuedResult, JobQueue, QueueOptions } from './job-queue.ts';
export { work } from './worker.ts';
export type { WorkOptions } from './worker.ts';
