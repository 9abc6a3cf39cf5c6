import { KvError } from '@kv/core';
import { opener, type FileReader } from './files.ts';
import { queryOutputs, type QueryOutputs } from './graph/queries.ts';
import { readGraph, withOutputs } from './graph/read.ts';
import type { TransformersModel, SessionShape } from './shape.ts';

/** Where a model came from: a folder, a name on the hub or a URL, with its load options; or the bytes of its graph. */
export type GraphSource =
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

/** What this package uses of a session of ONNX Runtime. */
export interface GraphSession {
  release?(): Promise<void>;
}
interface SessionClass {
  create(model: Uint8Array, options: object): Promise<GraphSession>;
}

const SUFFIX: Readonly<Record<string, string>> = { fp32: '', q8: '_quantized' };

/**
 * Opens the model's graph with each layer's queries as additional outputs, in a session of its own. Files are read, not
 * written.
 *
 * @throws KvError for a source that cannot be read and for a graph whose queries are not found.
 */
export async function queryGraph(
  source: GraphSource,
  { config, sessions }: TransformersModel,
  shape: SessionShape,
): Promise<{ readonly session: GraphSession; readonly outputs: QueryOutputs }> {
  if (config.attn_logit_softcapping != null)
    throw new KvError('source', 'expected a model without a soft cap on attention, got one with it');
  const {
      model,
      session_options: options = {},
      ...where
    } = typeof source === 'string' || source instanceof Uint8Array ? { model: source } : source,
    read = typeof model === 'string' ? opener(model, where) : undefined,
    session = sessions.model as object as { readonly config?: { readonly dtype?: string; readonly device?: string } },
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
    ...deviceOptions(session.config?.device, shape),
    ...options,
    ...(externalData.length > 0 && { externalData }),
  });
  return { session: Object.assign(made, { config: session.config }), outputs };
}

/** Returns the session options for the model's device; several device names leave the choice to ONNX Runtime. */
function deviceOptions(device: string | undefined, { layers }: SessionShape): object {
  if (device === undefined || /^(?:auto|gpu|webnn.*)$/.test(device)) return {};
  const cached = Array.from({ length: layers }, (_, l) => [`present.${l}.key`, `present.${l}.value`]).flat(),
    onDevice = { preferredOutputLocation: Object.fromEntries(cached.map((name) => [name, 'gpu-buffer'])) };
  return { executionProviders: [device], ...(device === 'webgpu' && onDevice) };
}

async function needed(read: FileReader | undefined, file: string): Promise<Uint8Array> {
  if (!/^[\w.-]+$/.test(file))
    throw new KvError('source', `expected files next to the graph, got ${JSON.stringify(file)}`);
  if (!read)
    throw new KvError('source', `expected a folder or a name, since the graph's tensors lie in ${file}, got bytes`);
  return read(file);
}
