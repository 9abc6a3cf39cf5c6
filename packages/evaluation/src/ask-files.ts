import { compile, filesOf, isInputSignal } from '@kv/core/engine';
import type { AnySignal, Policy, ProviderEngine } from '@kv/core';
import type { Subject } from './subject.ts';

/**
 * Reads the files stored with a model that a policy needs, without weights: asks each of its signals for the first
 * layer.
 */
export async function askFiles(policy: Policy, sidecar: Subject['sidecar']): Promise<void> {
  const engine = { artifact: sidecar, hiddenNumbers: async () => new Float32Array() } as unknown as ProviderEngine;
  for (const { provide } of filed(policy)) await provide?.(engine, 0);
}

const filed = (policy: Policy): readonly AnySignal[] => {
  const { needs, hooks } = compile(policy);
  const all = [...needs, ...[...hooks('view'), ...hooks('step')].flatMap((hook) => hook.needs)];
  return [...all, ...filesOf(all.filter(isInputSignal))].filter(({ cost }) => cost === 'artifact');
};
