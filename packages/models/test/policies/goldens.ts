import { reference, referenceJson } from '@kv/model-testing/reference';
import { loadModel } from '../../src/index.ts';
import type { HostModel } from '../../src/index.ts';

/** Data recorded for a golden checkpoint: ids of its prompt, and other results. */
export interface Golden {
  readonly ids: number[];
  readonly policies: Readonly<Record<string, { readonly kept: number[][][] }>>;
}

/** Returns the folder of a golden checkpoint. */
export const goldenFolder = (kind: string): string => reference(`data/goldens/${kind}`);
export const goldenOf = (kind: string): Golden => referenceJson(`data/goldens/${kind}/golden.json`);

/** Returns the llama golden, 4 layers of 4 query heads, and its prompt. */
export const llamaGolden = async (): Promise<{ readonly model: HostModel; readonly ids: number[] }> => ({
  model: await loadModel(goldenFolder('llama')),
  ids: goldenOf('llama').ids,
});
