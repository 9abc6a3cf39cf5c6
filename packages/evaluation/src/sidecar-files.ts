import { createHash } from 'node:crypto';
import { compile } from '@kv/core/engine';
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

/**
 * Returns the files stored with the model that policies read, each with a digest of its content: `queries.safetensors
 * 0123456789abcdef`. So results with other numbers are never reused.
 */
export async function filesOf(policies: readonly Policy[], { sidecar }: Pick<Subject, 'sidecar'>): Promise<string[]> {
  const found = new Map<string, string>();
  const seen: Subject['sidecar'] = async (name) => {
    const bytes = await sidecar(name);
    if (bytes) found.set(name, createHash('sha256').update(bytes).digest('hex').slice(0, 16));
    return bytes;
  };
  for (const policy of policies) await askFiles(policy, seen).catch(() => {}); // errors are reported when the policy runs
  return [...found].map(([name, digest]) => `${name} ${digest}`).sort();
}

const filed = (policy: Policy): readonly AnySignal[] => {
  const { needs, hooks } = compile(policy);
  return [...needs, ...[...hooks('view'), ...hooks('step')].flatMap((hook) => hook.needs)].filter(
    ({ cost }) => cost === 'artifact',
  );
};
