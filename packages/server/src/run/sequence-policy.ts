import type { CompiledPolicy } from '@kv/core/engine';
import type { SlotBytes } from '@kv/core';
import type { Budget } from '@kv/models';

/** The policy of a sequence, with its budget and schedule. */
export interface SequencePolicy {
  readonly policy?: CompiledPolicy | undefined;
  readonly budget?: Budget | undefined;
  /** The sizes of its slots; a policy that evicts has them. */
  readonly sizes?: SlotBytes | undefined;
  readonly block?: number | undefined;
  /** Generated tokens between two events. */
  readonly every?: number | undefined;
}
