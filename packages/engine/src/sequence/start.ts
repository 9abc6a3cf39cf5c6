import type { ActivePolicy } from '../memory/active-policy.ts';
import type { Memory } from '../memory/memory.ts';
import type { Outputs } from './outputs.ts';

/** What a copy, or a loaded sequence, starts with. */
export interface SequenceStart {
  readonly memory: Memory;
  /** @defaultValue a policy that keeps everything */
  readonly active?: ActivePolicy;
  readonly outputs?: Outputs;
  readonly notes?: readonly string[];
}
