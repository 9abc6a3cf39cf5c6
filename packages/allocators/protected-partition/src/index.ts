export { protectedPartition } from './protected-partition.ts';
export type { ProtectedPartitionOptions } from './protected-partition.ts';
