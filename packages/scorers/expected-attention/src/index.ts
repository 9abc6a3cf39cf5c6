export { capkv } from './capkv.ts';
export { expectedAttention, expectedAttentionStats } from './expected-attention.ts';
export {
  QUERY_STATISTICS_FILE,
  queryMoments,
  queryStatistics,
  queryStatisticsFile,
  readQueryStatistics,
} from './query-statistics.ts';
export type { QueryStatistics, TurnedQueries } from './query-statistics.ts';
