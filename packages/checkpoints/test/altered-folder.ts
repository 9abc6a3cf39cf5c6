import { readFileSync } from 'node:fs';
import { fixture, fixtureJson } from '@kv/model-testing/fixture';
import { writeSafetensors, type TensorBytes } from '@kv/model-testing/safetensors-file';
import { readSafetensors } from '../src/format/safetensors.ts';
import { openCheckpoint, type Checkpoint } from '../src/load/load.ts';
import { bytesSource } from '../src/read/source.ts';

/** Returns the tensors of a tiny checkpoint as they are stored. */
export async function tensorsOf(name: string): Promise<Record<string, TensorBytes>> {
  const file = await readSafetensors(bytesSource(readFileSync(fixture(`${name}/model.safetensors`)), name));
  return Object.fromEntries(
    await Promise.all(
      [...file.tensors].map(
        async ([tensor, { type, shape }]) =>
          [tensor, { dtype: type as TensorBytes['dtype'], shape, bytes: await file.bytes(tensor) }] as const,
      ),
    ),
  );
}

/** Opens a tiny checkpoint with other tensors, or another configuration. */
export const openAltered = (
  name: string,
  tensors: Readonly<Record<string, TensorBytes>>,
  change: (config: Readonly<Record<string, unknown>>) => object = (config) => config,
): Promise<Checkpoint> =>
  openCheckpoint('/', {
    files: new Map([
      ['config.json', new Blob([JSON.stringify(change(fixtureJson(`${name}/config.json`)))])],
      ['tokenizer.json', new Blob([readFileSync(fixture(`${name}/tokenizer.json`))])],
      ['model.safetensors', new Blob([writeSafetensors(tensors)])],
    ]),
  });
