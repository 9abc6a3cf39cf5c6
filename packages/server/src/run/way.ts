import type { CompiledPolicy } from '@kv/core/engine';
import type { Budget } from '@kv/models';

/** What a sequence is to go by. */
export interface SequencePolicy {
  readonly policy?: CompiledPolicy | undefined;
  readonly budget?: Budget | undefined;
  readonly block?: number | undefined;
  /** Tokens between two events while tokens are generated. */
  readonly every?: number | undefined;
}
