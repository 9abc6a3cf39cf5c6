import type { Backend } from '@kv/core';
import { Ledger } from '../ledger.ts';
import type { CacheForm } from '../cache/form.ts';
import type { AttentionCounters } from './feed.ts';
import { expectModelAlive } from './model-parts.ts';
import type { MemoryModel, MemoryOptions } from './model-parts.ts';
import { TokenProgress } from './progress.ts';
import { TokenText } from './text.ts';
import { UsageGuard } from './usage-guard.ts';

/** What a sequence has wherever its caches live. */
export interface SequenceContext {
  readonly model: MemoryModel;
  /** The backend that pieces run on. */
  readonly backend: Backend;
  /** Number of rotary positions available. */
  readonly window: number;
  /** Once aborted, passes end within a layer. */
  readonly signal: AbortSignal | undefined;
  /** How keys and values are stored. */
  readonly form: CacheForm;
  readonly ledger: Ledger;
  readonly counters: AttentionCounters;
  readonly progress: TokenProgress;
  readonly guard: UsageGuard;
}

/**
 * Returns the context of a sequence with this progress.
 * @param progress @defaultValue that of an empty sequence
 * @throws KvError once the model was destroyed
 */
export function sequenceContext(
  model: MemoryModel,
  backend: Backend,
  { window = model.config.maxPositions, signal, form = 'f32' }: Pick<MemoryOptions, 'window' | 'signal' | 'form'> = {},
  progress: TokenProgress = new TokenProgress(new TokenText(model.tokenizer)),
): SequenceContext {
  expectModelAlive(model);
  return {
    model,
    backend,
    window,
    signal,
    form,
    ledger: new Ledger(),
    counters: { fused: 0, statistics: 0 },
    progress,
    guard: new UsageGuard(model, signal),
  };
}
