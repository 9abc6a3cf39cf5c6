import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { loadModel } from '../../src/index.ts';
import type { HostModel } from '../../src/index.ts';

/** The folder of the team's fixtures. */
const shared = `${process.env['KV_SHARED']}`;

/** What lies beside a golden checkpoint: ids of its prompt, and what else was recorded. */
export interface Golden {
  readonly ids: number[];
  readonly policies: Readonly<Record<string, { readonly kept: number[][][] }>>;
}

/** The folder of a golden checkpoint. */
export const goldenFolder = (kind: string): string => join(shared, 'data/goldens', kind);
export const goldenOf = (kind: string): Golden =>
  JSON.parse(readFileSync(join(goldenFolder(kind), 'golden.json'), 'utf8')) as Golden;

/** The llama golden, 4 layers of 4 query heads, and its prompt. */
export const llamaGolden = async (): Promise<{ readonly model: HostModel; readonly ids: number[] }> => ({
  model: await loadModel(goldenFolder('llama')),
  ids: goldenOf('llama').ids,
});
