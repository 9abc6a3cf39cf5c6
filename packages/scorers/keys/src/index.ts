export { cur, windowShare } from './cur.ts';
export { keydiff, minusCosine, unitSums } from './keydiff.ts';
export { lagkv } from './lagkv.ts';
export { lagScores, lagSpread } from './lag.ts';
export { Q_FILTERS_FILE, qfilter, qFilters, qFiltersFile, readQFilters } from './qfilter.ts';
export type { QFilters } from './qfilter.ts';
export { queryDirections } from './query-directions.ts';
