export { protectedPartition } from './protected-partition.ts';
