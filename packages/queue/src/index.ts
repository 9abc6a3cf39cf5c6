export { openQueue } from './ask.ts';
export type { QueuedResult, JobQueue, QueueOptions } from './ask.ts';
export { work } from './work.ts';
export type { WorkOptions } from './work.ts';
