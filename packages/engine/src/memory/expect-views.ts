import { KvError } from '@kv/core';
import { isState } from '@kv/core/engine';
import type { State } from '@kv/core';
import type { CompiledPolicy } from '@kv/core/engine';
import type { ModelConfig } from '@kv/checkpoints';
import { keptLayers } from '../decoder/keeps.ts';

/** Whose the rows of a state are. */
const owners = { query: 'query heads', kv: 'KV heads', layer: 'layers', model: 'the model' } as const;

/**
 * Checks that a policy's views can act for each reader of a slot by itself. @throws KvError for a view that keeps numbers
 * which several readers would change
 */
export function expectViewsFit({ hooks, methodName }: CompiledPolicy, config: ModelConfig): void {
  const shared = keptLayers(config).readers.find((readers) => readers.length > 1);
  if (!shared) return;
  const kept = hooks('view')
    .flatMap(({ needs }) => needs)
    .find((signal): signal is State => isState(signal) && signal.state.rows !== 'query');
  if (kept)
    throw new KvError(
      'policy',
      `'${methodName}' hides slots by numbers that it keeps of ${owners[kept.state.rows]} (${kept.id}), which has no meaning in this model, where layers ${shared.join(', ')} read the same slots, one after the other: take a view that keeps numbers of query heads alone`,
    );
}
