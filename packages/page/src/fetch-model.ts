import { KvError } from '@kv/core';
import { fetchModel as fetchInWorker } from '@kv/hub/browser';
import type { DownloadPlan, OfflineModel, Progress } from '@kv/hub/browser';

/** Options of `fetchModel`. */
export type PageFetchOptions = NonNullable<Parameters<typeof fetchInWorker>[1]>;

/** What the worker says. */
type Said =
  | { readonly plan: DownloadPlan }
  | { readonly progress: Progress }
  | { readonly fetched: OfflineModel }
  | { readonly at: string | undefined; readonly message: string };

/** The worker's program: this module, from wherever the page had it, since a worker itself must be of the page's origin. */
const program = (model: string, options: PageFetchOptions): string => `
import { fetchModel } from ${JSON.stringify(import.meta.url)};
const onProgress = (progress) => postMessage({ progress });
const onPlan = (plan) => new Promise((go) => {
  onmessage = go;
  postMessage({ plan });
});
fetchModel(${JSON.stringify(model)}, { ...${JSON.stringify(options)}, onPlan, onProgress }).then(
  (fetched) => postMessage({ fetched }),
  ({ at, message }) => postMessage({ at, message }),
);`;

/**
 * Returns a public model of the Hugging Face hub by name (`org/name`, `org/name:Q4_K_M`, `org/name/file.gguf`). The
 * browser keeps its files for the page's origin, verified and resumed after an interruption; a kept model is used
 * without network.
 * @throws KvError in one sentence for any failure; the signal's reason when aborted
 */
export function fetchModel(model: string, options: PageFetchOptions = {}): Promise<OfflineModel> {
  // files can be written in a dedicated worker alone
  return typeof document === 'undefined' ? fetchInWorker(model, options) : startWorker(model, options);
}

async function startWorker(
  model: string,
  { signal, onPlan, onProgress, ...options }: PageFetchOptions,
): Promise<OfflineModel> {
  signal?.throwIfAborted();
  const address = URL.createObjectURL(new Blob([program(model, options)], { type: 'text/javascript' })),
    worker = new Worker(address, { type: 'module' }),
    ended = new AbortController();
  try {
    return await new Promise((resolve, reject) => {
      worker.onmessage = ({ data }: MessageEvent<Said>) => {
        if ('plan' in data) void (async () => onPlan?.(data.plan))().then(() => worker.postMessage('go'), reject);
        else if ('progress' in data) onProgress?.(data.progress);
        else if ('fetched' in data) resolve(data.fetched);
        else reject(errorOf(data));
      };
      worker.onerror = ({ message }) =>
        reject(
          new KvError(model, `expected a worker from a blob that imports ${import.meta.url}, got ${message || 'none'}`),
        );
      signal?.addEventListener('abort', () => reject(signal.reason), { signal: ended.signal });
    });
  } finally {
    ended.abort();
    worker.terminate();
    URL.revokeObjectURL(address);
  }
}

/** Returns the worker's error, whose message begins with its place. */
const errorOf = ({ at, message }: Extract<Said, { message: string }>): Error =>
  at === undefined ? new Error(message) : new KvError(at, message.slice(at.length + 2));
