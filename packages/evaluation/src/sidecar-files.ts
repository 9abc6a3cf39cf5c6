import { createHash } from 'node:crypto';
import type { Policy } from '@kv/core';
import { askFiles } from './ask-files.ts';
import type { Subject } from './subject.ts';

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
