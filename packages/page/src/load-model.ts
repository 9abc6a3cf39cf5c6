import { KvError } from '@kv/core';
import { showValue } from '@kv/core/engine';
import { cpuRuntime, loadModel as load } from '@kv/models';
import type { Model, OpenOptions, Runtime } from '@kv/models';
import { fetchModel } from './fetch-model.ts';
import type { PageFetchOptions } from './fetch-model.ts';

/** Options of `loadModel`: limits of a download, and, with a name of the hub alone, those of `fetchModel`. */
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
 * @throws KvError in one sentence for anything else, for an option of the hub with an address or files, and for any error
 *   in the files
 * @example
 *   const model = await loadModel('./model/');
 */
export async function loadModel(
  from: string | URL | File | Iterable<File>,
  { revision, offline, onPlan, onProgress, attempts, runtime = defaultRuntime(), ...options }: PageLoadOptions = {},
): Promise<Model> {
  const hub = { revision, offline, onPlan, onProgress, attempts };
  if (typeof from === 'string' && !isAddress(from) && from.includes('/')) {
    const { name, files } = await fetchModel(from, { ...hub, signal: options.signal });
    return load(name, { ...options, files, runtime });
  }
  const at = typeof from === 'string' || from instanceof URL ? { name: addressOf(from) } : chosen(from);
  for (const [option, value] of Object.entries(hub))
    if (value !== undefined)
      throw new KvError(option, `expected a name of the hub, org/name, to use it for, got '${at.name}': leave it out`);
  return load(at.name, { ...options, ...('files' in at && { files: at.files }), runtime });
}

/** WebAssembly; without threads where workers cannot share its memory. */
const defaultRuntime = (): Runtime => cpuRuntime(globalThis.crossOriginIsolated ? {} : { threads: 1 });

/** Tells whether a text is an address: a name of the hub has no scheme, and begins with its organisation. */
const isAddress = (text: string): boolean => /^(?:[./]|[a-z][a-z\d+.-]*:)/i.test(text);

function addressOf(from: string | URL): string {
  if (from instanceof URL) return from.href;
  const base = globalThis.document?.baseURI ?? globalThis.location?.href;
  return isAddress(from) && URL.canParse(from, base) ? new URL(from, base).href : refuse(from);
}

/** Also a file of another window. */
const isFile = (x: unknown): x is File => Object.prototype.toString.call(x) === '[object File]';

/** Returns the name and files of a model that a user chose. */
function chosen(from: File | Iterable<File>): { readonly name: string; readonly files: ReadonlyMap<string, File> } {
  const files = isFile(from) ? [from] : Symbol.iterator in Object(from) ? [...from] : refuse(from);
  if (files.length === 0) throw new KvError('loadModel', "expected a .gguf file, or a checkpoint's files, got none");
  if (!files.every(isFile)) refuse(from);
  const names = files.map(({ name }) => name),
    first = names.find((name) => /-0+1-of-\d+\.gguf$/i.test(name)) ?? names.find((name) => /\.gguf$/i.test(name));
  return { name: first ?? 'the chosen files', files: new Map(files.map((file) => [file.name, file])) };
}

function refuse(from: unknown): never {
  throw new KvError(
    'loadModel',
    `expected an address (a relative one begins with ./), a model's files, or a name of the hub with its organisation (org/name), got ${showValue(from)}`,
  );
}
