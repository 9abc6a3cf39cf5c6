import type { ArmSummary } from '../protocol/statistics.ts';

/** What `match` makes equal: bytes, mean or peak; the mean number of slots if it does not say. */
interface Measured {
  readonly bytes?: 'mean' | 'peak' | undefined;
}

/** Returns the size of a cache that is to be equal. */
export const measureOf = (
  summary: Pick<ArmSummary, 'meanSlots' | 'meanBytes' | 'peakBytes'>,
  { bytes }: Measured,
): number => (bytes === undefined ? summary.meanSlots : bytes === 'mean' ? summary.meanBytes : summary.peakBytes);

/** Describes what is to be equal. */
export const measureText = ({ bytes }: Measured): string => (bytes === undefined ? 'mean cache' : `${bytes} bytes`);
