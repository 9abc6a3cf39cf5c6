import { compose, mandatory } from '@kv/core';
import type { Policy } from '@kv/core';
import { snapkv } from '@kv/scorers-attention';
import { wholeUnits } from '@kv/selectors-whole-units';
import { sentences } from '@kv/units-trunks';

export interface AttendedSentencesOptions {
  /** Last queries that look: as long as the shortest question. @defaultValue 8 */
  readonly window?: number;
  /** Most tokens that stay together. @defaultValue 32 */
  readonly maxSize?: number;
  /** First positions that stay. @defaultValue 4 */
  readonly sinks?: number;
}

/**
 * Whole sentences that the question looks at, each by its three best slots; the last one that no longer fits fills the
 * room with its best slots.
 *
 * @remarks Ours, from SnapKV's window and CrystalCache's sentences: a question looks at the beginning of a number, and
 * what follows is looked at only while it is being said.
 * Measured in studies/smollm2-needle.
 */
export function attendedSentences({ window = 8, maxSize = 32, sinks = 4 }: AttendedSentencesOptions = {}): Policy {
  return compose(
    snapkv({ window, kernel: 1 }),
    mandatory({ sinks }),
    sentences({ maxSize }),
    wholeUnits({ last: 'fill' }),
  );
}
