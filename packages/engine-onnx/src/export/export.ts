import { KvError, list, number, oneOf } from '@kv/core';
import type { OptionValues, ResolvedOptions } from '@kv/core';
import { settleOwn } from '@kv/core/engine';
import {
  builtin,
  embeddedFolder,
  HUB_FILES,
  openCheckpoint,
  show,
  slotLayers,
  slotHeads,
  type Checkpoint,
  commonHeads,
} from '@kv/checkpoints';
import type { JsonFields, ModelConfig } from '@kv/checkpoints';
import type { ExternalData } from '../graph.ts';
import { decoderGraph } from './decoder-graph.ts';

/** `f32`: every weight in f32. `q4`: products in 4 bits, or in the checkpoint's own blocks. */
export type ExportForm = 'f32' | 'q4';

/** The options of `exportOnnx`, declared. */
export const EXPORT = {
  weights: list(
    oneOf<ExportForm>(['f32', 'q4'], 'f32', 'A form of weights.'),
    ['f32'],
    'Forms to write: f32 (onnx/model.onnx), q4 (onnx/model_q4.onnx: 4 bits, or the blocks of a GGUF file as they are).',
  ),
  positions: oneOf(
    ['ids', 'mask'],
    'ids',
    "Where positions come from. ids: a graph that takes 'position_ids'; mask: one that counts them by the attention mask, as exports do that rotate keys inside GroupQueryAttention.",
  ),
  attention: oneOf(
    ['fused', 'plain'],
    'fused',
    'One node of `com.microsoft` per layer, or products and a softmax as in older exports.',
  ),
  inlineBytes: number(2 ** 30, 'Bytes of weights beyond which they go to separate files next to the model.', {
    least: 0,
  }),
};
/** Options of `exportOnnx`. */
export interface ExportOptions extends OptionValues<typeof EXPORT> {}

const FILES: Readonly<Record<ExportForm, string>> = { f32: 'model.onnx', q4: 'model_q4.onnx' };

/** The files next to the graphs that checkpoints have some of. */
const TEXTS: readonly string[] = HUB_FILES;

/** Maximum bytes of a separate weight file: what a browser can still load whole. */
const MOST_FILE_BYTES = 2 ** 31 - 2 ** 20;

/**
 * Writes a checkpoint as a folder of the Hugging Face hub that transformers.js loads: `onnx/*.onnx`, config.json,
 * generation_config.json, tokenizer.json, tokenizer_config.json and the chat template. Of an earlier export the graphs of
 * other forms stay if all of these files are the same; else it goes whole. In Node.
 *
 * @param name a model, as for `loadModel`
 * @returns the files written, relative to the folder
 * @throws KvError for a checkpoint that cannot be read, a layer without attention, a folder that holds a checkpoint, or one
 * that cannot be written
 */
export async function exportOnnx(
  name: string,
  folder: string,
  options: ExportOptions = {},
): Promise<readonly string[]> {
  const settled = settleOwn('exportOnnx', EXPORT, options);
  const checkpoint = await openCheckpoint(name === 'embedded' ? embeddedFolder() : name);
  try {
    expectAttention(name, checkpoint.config);
    expectNoCheckpoint(folder);
    return await writable(folder, () => write(checkpoint, folder, settled));
  } finally {
    await checkpoint.close();
  }
}

/** What a graph has none of, by the mixer. */
const plural = {
  attention: 'attention',
  shortConvolution: 'short convolutions',
  gatedDelta: 'gated delta rules',
  stateSpace: 'state spaces',
} as const;

/** @throws KvError for a folder with a model that no export has written, whose files an export would replace */
function expectNoCheckpoint(folder: string): void {
  const { existsSync, readdirSync, statSync } = builtin<typeof import('node:fs')>('node:fs');
  // one that is no folder is named where it is written
  const names = existsSync(folder) && statSync(folder).isDirectory() ? readdirSync(folder) : [],
    own = names.includes('onnx'),
    other = names.find((name) => /\.(?:safetensors|gguf)$/.test(name) || (name === 'config.json' && !own));
  if (other !== undefined)
    throw new KvError(
      'exportOnnx',
      `expected an empty folder or an earlier export, got ${show(folder)}, whose ${other} it would replace or lie next to: name another folder`,
    );
}

/** @throws KvError for a model that no graph is written of, such as one with a layer that carries a state */
function expectAttention(name: string, config: ModelConfig): void {
  const { layers } = config,
    others = config.mixers.filter(({ kind }) => kind !== 'attention').length,
    what =
      others > 0
        ? `${plural[config.mixers.find(({ kind }) => kind !== 'attention')!.kind]} in ${others} of ${layers}`
        : (config.attention.outputGate && 'output gates') ||
          (config.attention.learnedSinks && 'learned sinks') ||
          (config.attention.queryScale && 'queries that are scaled by their position') ||
          (config.experts && 'routed experts') ||
          (config.perLayer !== undefined && 'inputs of layers') ||
          (slotLayers(config).length < layers && 'slots that several layers read') ||
          (new Set(slotHeads(config).map(({ kvHeads, headDim }) => `${kvHeads} ${headDim}`)).size > 1 &&
            'heads that differ by layer');
  if (what)
    throw new KvError(
      name,
      `a graph is written of plain attention in every layer, got ${what}: take a model without them, or run this one with 'kv run'`,
    );
}

async function write(
  checkpoint: Checkpoint,
  folder: string,
  { weights, positions, attention, inlineBytes }: ResolvedOptions<typeof EXPORT>,
): Promise<readonly string[]> {
  const { mkdirSync } = builtin<typeof import('node:fs')>('node:fs'),
    external: Record<string, number> = {},
    parts = partsIn(folder);
  mkdirSync(`${folder}/onnx`, { recursive: true });
  try {
    for (const form of weights) {
      const file = FILES[form],
        separate = weightBytes(checkpoint.config, form) > inlineBytes ? externalFiles(parts, file) : undefined,
        graph = await decoderGraph(checkpoint.config, checkpoint.weights, {
          form,
          positions,
          attention,
          store: separate?.store,
        });
      parts.put(`onnx/${file}`, graph);
      if (separate) external[file] = separate.names.length;
    }
    const texts = await checkpoint.hubFiles(),
      earlier = earlierExternal(folder, texts),
      others = Object.entries(FILES).flatMap(([form, file]) =>
        earlier !== undefined && !weights.includes(form as ExportForm) ? [file] : [],
      );
    for (const file of others) if (earlier?.[file] !== undefined) external[file] = earlier[file];
    for (const [file, text] of texts) parts.put(file, file === ENTRY ? withExternal(text, external) : text);
    return parts.move(others);
  } finally {
    parts.drop();
  }
}

/** The file without which no reader accepts a folder as a model. */
const ENTRY = 'config.json';

/**
 * Files of a folder that are written to temporary names next to their targets, and moved there once all of them are
 * complete. The entry is removed first and written last, so that no reader sees old and new files together.
 */
interface Parts {
  /** Begins a file. */
  begin(name: string): void;
  /** Appends to the file begun last. */
  add(bytes: Uint8Array): void;
  put(name: string, content: string | Uint8Array): void;
  /**
   * Moves all files to their targets, and away what an earlier export wrote except these graphs, or restores what was
   * there before.
   */
  move(except: readonly string[]): readonly string[];
  /** Deletes the files that were not moved. */
  drop(): void;
}
function partsIn(folder: string): Parts {
  const { closeSync, existsSync, fsyncSync, mkdirSync, openSync, readdirSync, renameSync, rmSync, writeSync } =
      builtin<typeof import('node:fs')>('node:fs'),
    names: string[] = [],
    at = (name: string): string => `${folder}/${name}`,
    part = (name: string): string => `${at(name)}.part`,
    old = (name: string): string => `${at(name)}.replaced`,
    gone = new Set<string>();
  let file: number | undefined;
  const end = (): void => {
    if (file === undefined) return;
    const whole = file;
    file = undefined;
    try {
      fsyncSync(whole);
    } finally {
      closeSync(whole);
    }
  };
  const begin = (name: string): void => {
    end();
    mkdirSync(at(name).replace(/\/[^/]*$/, ''), { recursive: true });
    file = openSync(part(name), 'w');
    names.push(name);
    gone.add(part(name));
  };
  const add = (bytes: Uint8Array): void => {
    // a file was begun
    for (let done = 0; done < bytes.length; )
      done += writeSync(file!, bytes, done, Math.min(bytes.length - done, 2 ** 30));
  };
  return {
    begin,
    add,
    put(name, content) {
      begin(name);
      add(typeof content === 'string' ? new TextEncoder().encode(content) : content);
    },
    move(except) {
      end();
      // those that an interrupted export left under other names too
      const known = [...TEXTS, ...readdirSync(at('onnx')).map((name) => `onnx/${name}`)].map((name) =>
          name.replace(/\.(?:part|replaced)$/, ''),
        ),
        earlier = [...new Set(known)].filter(
          (name) => !names.includes(name) && (TEXTS.includes(name) || graphOf(name) !== undefined),
        ),
        away = earlier.filter((name) => !except.includes(graphOf(name) ?? name));
      const moved = [...names].sort((a, b) => Number(b === ENTRY) - Number(a === ENTRY)),
        done: (readonly [from: string, to: string])[] = [],
        step = (from: string, to: string): void => {
          renameSync(from, to);
          done.push([from, to]);
        };
      try {
        for (const name of [...moved, ...away]) if (existsSync(at(name))) step(at(name), old(name));
        for (const name of moved.toReversed()) step(part(name), at(name));
      } catch (error) {
        for (const [from, to] of done.reverse()) renameSync(to, from);
        throw error;
      }
      for (const name of [...names, ...earlier]) gone.add(old(name)).add(part(name));
      return names;
    },
    drop() {
      try {
        end();
        for (const path of gone) rmSync(path, { force: true });
      } catch {
        // a disk that fails keeps the parts; the next export takes their places
      }
    },
  };
}

/** Returns the graph that a file of the onnx folder belongs to, if an export writes such files. */
const graphOf = (name: string): string | undefined =>
  Object.values(FILES).find(
    (file) => name.startsWith(`onnx/${file}`) && /^(?:_data(?:_\d+)?)?$/.test(name.slice(`onnx/${file}`.length)),
  );

/**
 * Returns the numbers of external weight files that the config.json of an earlier export says, if all texts of that
 * export are those of this model.
 */
function earlierExternal(
  folder: string,
  texts: ReadonlyMap<string, string>,
): Readonly<Record<string, number>> | undefined {
  const { existsSync, readFileSync } = builtin<typeof import('node:fs')>('node:fs'),
    read = (name: string): string | undefined =>
      existsSync(`${folder}/${name}`) ? readFileSync(`${folder}/${name}`, 'utf8') : undefined;
  let external: Readonly<Record<string, number>> = {};
  const config = read(ENTRY);
  try {
    const { 'transformers.js_config': own } = JSON.parse(config ?? '{}') as {
      readonly 'transformers.js_config'?: { readonly use_external_data_format?: Readonly<Record<string, number>> };
    };
    external = own?.use_external_data_format ?? {};
  } catch {
    return undefined; // what no reader accepts is no export
  }
  return TEXTS.every((name) => {
    const text = texts.get(name);
    return name === ENTRY ? config === withExternal(text ?? '{}', external) : read(name) === text;
  })
    ? external
    : undefined;
}

/** Returns config.json with what transformers.js must know of external weight files, and without older such entries. */
function withExternal(text: string, external: Readonly<Record<string, number>>): string {
  const { 'transformers.js_config': _, ...fields } = JSON.parse(text) as JsonFields;
  const config =
    Object.keys(external).length > 0 ? { 'transformers.js_config': { use_external_data_format: external } } : {};
  return `${JSON.stringify({ ...fields, ...config }, null, 2)}\n`;
}

/** Returns a store of files `FILE_data`, `FILE_data_1`, ... that tensors are appended to. */
function externalFiles(
  parts: Parts,
  model: string,
): { readonly names: readonly string[]; store(bytes: Uint8Array): ExternalData | undefined } {
  const names: string[] = [];
  let size = 0;
  return {
    names,
    store(bytes) {
      if (bytes.length < 1024) return undefined;
      if (names.length === 0 || size + bytes.length > MOST_FILE_BYTES) {
        names.push(`${model}_data${names.length === 0 ? '' : `_${names.length}`}`);
        parts.begin(`onnx/${names[names.length - 1]}`);
        size = 0;
      }
      const offset = size,
        rest = -bytes.length & 63;
      parts.add(bytes);
      parts.add(new Uint8Array(rest));
      size += bytes.length + rest;
      return { file: names[names.length - 1], offset, length: bytes.length };
    },
  };
}

/** Returns the approximate bytes of a model's products and embedding. */
function weightBytes(config: ModelConfig, form: ExportForm): number {
  const { layers, hidden, ffn, vocab, tied } = config,
    { queryHeads, kvHeads, headDim } = commonHeads(config, 'export'),
    products = layers * hidden * ((2 * queryHeads + 2 * kvHeads) * headDim + 3 * ffn) + vocab * hidden,
    shared = form === 'f32' && tied ? 0 : vocab * hidden;
  return products * (form === 'f32' ? 4 : 0.625) + shared * 4;
}

/** Runs file operations. @throws KvError for an error of the file system */
async function writable<T>(folder: string, run: () => Promise<T>): Promise<T> {
  try {
    return await run();
  } catch (cause) {
    const { code, syscall } = cause as NodeJS.ErrnoException;
    if (code === undefined || syscall === undefined) throw cause;
    throw new KvError(
      folder,
      `cannot be written (${code}); its earlier files are unchanged: free some space or choose another folder, and export again`,
    );
  }
}
