import { existsSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { loadModel } from '@kv/models';
import type { HostModel } from '@kv/models';

/** The team's fixtures: `KV_SHARED`, or `shared` beside the repository. */
export const shared: string = process.env['KV_SHARED'] ?? fileURLToPath(new URL('../../../../shared', import.meta.url));

/** What lies beside a golden checkpoint: ids of its prompt, and what else was recorded. */
export interface Golden {
  readonly ids: number[];
  readonly policies: Readonly<Record<string, { readonly kept: number[][][] }>>;
}

/** The folder of a golden checkpoint. @throws Error where the fixtures are not there */
export function goldenFolder(kind: string): string {
  const folder = join(shared, 'data/goldens', kind);
  if (!existsSync(folder))
    throw new Error(`expected the shared fixtures at ${folder}: set KV_SHARED or put them beside the repository`);
  return folder;
}
export const goldenOf = (kind: string): Golden =>
  JSON.parse(readFileSync(join(goldenFolder(kind), 'golden.json'), 'utf8')) as Golden;

/** The llama golden, 4 layers of 4 query heads, and its prompt. */
export const llamaGolden = async (): Promise<{ readonly model: HostModel; readonly ids: number[] }> => ({
  model: await loadModel(goldenFolder('llama')),
  ids: goldenOf('llama').ids,
});
