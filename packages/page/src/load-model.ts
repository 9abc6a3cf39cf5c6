import { KvError } from '@kv/core';
import { cpuRuntime, loadModel as load } from '@kv/models';
import type { Model, OpenOptions, Runtime } from '@kv/models';
import { fetchModel } from './fetch-model.ts';
import type { PageFetchOptions } from './fetch-model.ts';

/** Options of `loadModel`: limits of a download, and of what is fetched from the hub. */
export interface PageLoadOptions extends OpenOptions, PageFetchOptions {
  /** Where the model runs: `await findGpuRuntime()`, `cpuRuntime(...)`. @defaultValue WebAssembly */
  readonly runtime?: Runtime | undefined;
}

/**
 * Loads a model from
 * - an address of a .gguf file or of a checkpoint's folder: a `URL`, or text with a scheme, or that begins with `.` or
 *   `/`;
 * - a `File` that a user chose, or all files of a checkpoint or of a .gguf file in parts;
 * - the Hugging Face hub: `org/name`, `org/name:Q4_K_M` or `org/name/file.gguf`, as `fetchModel`.
 * @throws KvError in one sentence for anything else, and for any error in the files
 * @example
 *   const model = await loadModel('./model/');
 */
export async function loadModel(
  from: string | URL | File | Iterable<File>,
  { revision, offline, onPlan, onProgress, attempts, runtime = defaultRuntime(), ...options }: PageLoadOptions = {},
): Promise<Model> {
  if (from instanceof URL || (typeof from === 'string' && isAddress(from)))
    return load(new URL(from, globalThis.document?.baseURI ?? location.href).href, { ...options, runtime });
  const { name, files } =
    typeof from === 'string'
      ? await fetchModel(from, { revision, offline, onPlan, onProgress, attempts, signal: options.signal })
      : chosen(from instanceof File ? [from] : [...from]);
  return load(name, { ...options, files, runtime });
}

/** WebAssembly; without threads where workers cannot share its memory. */
const defaultRuntime = (): Runtime => cpuRuntime(globalThis.crossOriginIsolated ? {} : { threads: 1 });

/** Tells whether a text is an address and not a name of the hub. */
const isAddress = (text: string): boolean => /^(?:[./]|[a-z][a-z\d+.-]*:)/i.test(text) || !text.includes('/');

/** Returns the name and files of a model that a user chose. */
function chosen(files: readonly File[]): { readonly name: string; readonly files: ReadonlyMap<string, File> } {
  if (files.length === 0) throw new KvError('loadModel', "expected a .gguf file, or a checkpoint's files, got none");
  const names = files.map(({ name }) => name),
    first = names.find((name) => /-0+1-of-\d+\.gguf$/i.test(name)) ?? names.find((name) => /\.gguf$/i.test(name));
  return { name: first ?? 'the chosen files', files: new Map(files.map((file) => [file.name, file])) };
}
