import { KvError } from '@kv/core';
import { fetchModel } from '@kv/hub/browser';
import type { Progress } from '@kv/hub/browser';
import { loadModel, type Model } from '@kv/models';
import type { FromWorker, ToWorker } from '../messages.ts';
import type { ModelRequest } from '../model-messages.ts';
import type { Computer } from './device.ts';

type Run = Extract<ToWorker, { readonly choice: unknown }>;

/** Returns a key that is the same for the same model. */
export const keyOf = ({ model, chosen }: Pick<ModelRequest, 'model' | 'chosen'>): string =>
  JSON.stringify([
    model,
    model.kind === 'file' && chosen.map(({ name, size, lastModified }) => [name, size, lastModified]),
  ]);

/** Loads the model of a run on a device. @throws KvError in one sentence for a model that cannot be loaded */
export function modelOf(
  { run, choice: { model }, model: own, chosen, download }: Run,
  computer: Computer,
  send: (message: FromWorker) => void,
  signal: AbortSignal,
): Promise<Model> {
  return loadChosen({ model, own, chosen }, computer, signal, {
    download,
    onProgress: (progress) => send({ type: 'progress', run, progress }),
  }).catch((error: unknown) => {
    if (!download && isAbsent(error))
      throw new KvError(model.name, 'is not in this browser yet: press Run to download it from huggingface.co');
    throw error;
  });
}

/** What happens if a model of the hub is not in this browser. */
interface FetchWish {
  readonly download: boolean;
  readonly onProgress?: (progress: Progress) => void;
}

/** Loads a model on a device. @throws KvError in one sentence for a model that cannot be loaded */
export async function loadChosen(
  { model, own, chosen }: ModelRequest,
  { runtime }: Computer,
  signal: AbortSignal,
  { download, onProgress }: FetchWish = { download: false },
): Promise<Model> {
  if (model.kind === 'embedded') return loadModel(own.url, { runtime: runtime(true), files: own.files });
  if (model.kind === 'file') {
    const first = chosen.find(({ name }) => /-0+1-of-\d+\.gguf$/i.test(name)) ?? chosen[0];
    if (!/\.gguf$/i.test(first?.name ?? ''))
      throw new KvError('model', `expected a .gguf file, got ${first === undefined ? 'none' : first.name}`);
    return loadModel(first.name, {
      runtime: runtime(false),
      files: new Map(chosen.map((file) => [file.name, file])),
      signal,
    });
  }
  const { name, files } = await fetchModel(model.name, {
    offline: !download,
    signal,
    ...(onProgress && { onProgress }),
  });
  return loadModel(name, { runtime: runtime(false), files, signal });
}

/** Whether an error says that the browser does not keep a model that may not be downloaded. */
export const isAbsent = (error: unknown): boolean =>
  KvError.is(error) && error.message.includes('no network may be used');

/** Deletes every model that the browser keeps for the page. */
export async function forgetModels(): Promise<void> {
  const root = await navigator.storage.getDirectory();
  await root.removeEntry('kv-hub', { recursive: true }).catch(() => {}); // nothing was stored
}
