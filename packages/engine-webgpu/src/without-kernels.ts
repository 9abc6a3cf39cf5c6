import type { ModelConfig } from '@kv/checkpoints';

/** Returns what a model has that there are no kernels for, undefined for nothing. */
export function withoutKernels({ mixers, attention }: ModelConfig): string | undefined {
  const layer = mixers.findIndex(({ kind }) => kind === 'gatedDelta');
  return layer >= 0 ? `a gated delta rule in layer ${layer}` : attention.outputGate ? 'output gates' : undefined;
}
