import { KvError } from '@kv/core';
import { env } from '@huggingface/transformers';
import { queryOutputs, type QueryOutputs } from './graph/queries.ts';
import { readGraph, withOutputs } from './graph/read.ts';
import type { Loaded, Shape } from './shape.ts';

/** Where a model came from: a folder, a name on the hub or a URL, with its load options; or the bytes of its graph. */
export type Source =
  | string
  | Uint8Array
  | {
      readonly model: string | Uint8Array;
      /** @defaultValue that of the loaded model */
      readonly dtype?: string;
      /** @defaultValue 'onnx' */
      readonly subfolder?: string;
      /** @defaultValue 'model' */
      readonly model_file_name?: string;
      /** @defaultValue 'main' */
      readonly revision?: string;
      readonly session_options?: object;
      readonly [option: string]: unknown;
    };

interface SessionClass {
  create(model: Uint8Array, options: object): Promise<object>;
}

const SUFFIX: Readonly<Record<string, string>> = { fp32: '', q8: '_quantized' };

/**
 * The model's graph with each layer's queries among its outputs, in a session of its own; files are read, not written.
 *
 * @throws KvError for a source that cannot be read and for a graph whose queries are not found.
 */
export async function queryGraph(
  source: Source,
  { config, sessions }: Loaded,
  shape: Shape,
): Promise<{ readonly session: object; readonly outputs: QueryOutputs }> {
  if (config.attn_logit_softcapping != null)
    throw new KvError('source', 'expected a model without a soft cap on attention, got one with it');
  const {
      model,
      session_options: options = {},
      ...where
    } = typeof source === 'string' || source instanceof Uint8Array ? { model: source } : source,
    read = typeof model === 'string' ? opener(model, where) : undefined,
    session = sessions.model as object as { readonly config?: { readonly dtype?: string } },
    { dtype = session.config?.dtype ?? 'fp32', model_file_name: file = 'model' } = where as {
      dtype?: string;
      model_file_name?: string;
    },
    bytes = typeof model === 'string' ? await read?.(`${file}${SUFFIX[dtype] ?? `_${dtype}`}.onnx`) : model;
  if (!bytes) throw new KvError('source', 'expected bytes, got none');
  const graph = readGraph(bytes),
    outputs = queryOutputs(graph, shape),
    changed = withOutputs(bytes, [...new Set(outputs.map(({ name }) => name))], shape.type as 'float32'),
    externalData = await Promise.all(graph.files.map(async (path) => ({ path, data: await needed(read, path) })));
  const made = await (session.constructor as unknown as SessionClass).create(changed, {
    ...options,
    ...(externalData.length > 0 && { externalData }),
  });
  return { session: Object.assign(made, { config: session.config }), outputs };
}

type Read = (file: string) => Promise<Uint8Array>;

async function needed(read: Read | undefined, file: string): Promise<Uint8Array> {
  if (!/^[\w.-]+$/.test(file))
    throw new KvError('source', `expected files beside the graph, got ${JSON.stringify(file)}`);
  if (!read)
    throw new KvError('source', `expected a folder or a name, since the graph's tensors lie in ${file}, got bytes`);
  return read(file);
}

/** Reads files of a model's `onnx` folder: from the disk in Node, a URL, or the hub as transformers.js is set up. */
function opener(name: string, { subfolder = 'onnx', revision = 'main' }: { readonly [option: string]: unknown }): Read {
  const inside = [name.replace(/\/$/, ''), subfolder].filter(Boolean).join('/');
  return async (file) => {
    const found =
      (await fromDisk(`${inside}/${file}`)) ??
      (env.allowLocalModels && env.localModelPath
        ? await fromDisk(`${env.localModelPath}/${inside}/${file}`)
        : undefined);
    if (found) return found;
    const folder = /^https?:/.test(name)
        ? `${name.replace(/\/$/, '')}/`
        : env.remoteHost + env.remotePathTemplate.replace('{model}', name).replace('{revision}', String(revision)),
      url = `${folder}${String(subfolder)}/${file}`,
      answer: Response = await env.fetch(url);
    if (!answer.ok) throw new KvError('source', `expected ${url}, got HTTP status ${answer.status}`);
    return new Uint8Array(await answer.arrayBuffer());
  };
}

async function fromDisk(path: string): Promise<Uint8Array | undefined> {
  if (typeof process !== 'object' || typeof process.getBuiltinModule !== 'function') return undefined;
  return process
    .getBuiltinModule('node:fs/promises')
    .readFile(path)
    .catch(() => undefined);
}
