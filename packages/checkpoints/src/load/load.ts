import { KvError } from '@kv/core';
import { builtin } from '../read/builtin.ts';
import { object, show, type JsonFields } from '../read/fields.ts';
import { readChatTemplate, type ChatTemplate, type ChatTemplateSources } from '../chat/chat-template.ts';
import { createTokenizer } from '../tokenizer/tokenizer.ts';
import type { Tokenizer } from '../tokenizer/interface.ts';
import { ggufEnds, ggufTokenizer } from '../tokenizer/gguf.ts';
import { parseConfig, unwrittenEnd, type ModelConfig } from '../config/config.ts';
import { configFromGguf } from '../config/gguf-config.ts';
import { openGguf } from '../format/gguf-shards.ts';
import { ggufHubFiles, HUB_FILES, wantedFiles } from './hub-files.ts';
import { openSafetensors, type OpenFile } from '../format/safetensors-shards.ts';
import type { OpenOptions } from '../options.ts';
import { isGguf, isUrl, splitName, withPath } from '../read/address.ts';
import { isAbsent } from '../read/download.ts';
import {
  abortable,
  blobSource,
  fileSource,
  maxJson,
  readJson,
  urlSource,
  type FileBlob,
  type ByteSource,
} from '../read/source.ts';
import { storedOf, type CheckpointSize, type CheckpointTensors } from '../format/tensor-file.ts';
import { checkpointWeights, withHead, type Weights } from './weights.ts';

/**
 * An open checkpoint. Configuration, tokenizer and headers have been read and checked; `weights` can be read until it
 * is closed.
 */
export interface Checkpoint {
  readonly config: ModelConfig;
  /** The weights, read on demand. */
  readonly weights: Weights;
  /** Size of the tensors in the files, without tables that stay there. */
  readonly stored: CheckpointSize;
  readonly tokenizer: Tokenizer;
  /**
   * Tokens that end an answer, in addition to the configuration's `eosIds`: those of generation_config.json; where neither
   * names any, that of tokenizer_config.json or, if it is a special token, of the architecture; or those that a GGUF file's
   * vocabulary has by their text. Not part of the configuration, over which fingerprints are computed.
   */
  readonly ends: readonly number[];
  /** Tokens that no answer may have: `suppress_tokens` of generation_config.json. Not part of the configuration either. */
  readonly banned: readonly number[];
  /**
   * Returns the chat template, if there is one; parsed on the first call, since only a chat needs it.
   * @throws KvError if it does not parse
   */
  readonly chatTemplate: () => ChatTemplate | undefined;
  /**
   * Returns configuration, tokenizer and chat template as text files of a Hugging Face folder, by name: the folder's
   * own, or what a GGUF file says in that form.
   */
  hubFiles(): Promise<ReadonlyMap<string, string>>;
  /** Closes the files; `weights` cannot be read afterwards. */
  close(): Promise<void>;
}

type Blobs = ReadonlyMap<string, FileBlob>;
/** Returns the files themselves, if the caller provided them. */
export const blobsOf = (files: OpenOptions['files']): Blobs | undefined =>
  files !== undefined && 'get' in files ? files : undefined;

/**
 * Opens a `.gguf` file, or a folder (a path or a `file:` URL in Node, an `http(s):` URL anywhere) with config.json,
 * tokenizer.json and model.safetensors or its shards. On failure nothing is left open.
 * @param name the file, folder or URL
 * @throws KvError naming the file and what is wrong with it
 */
export async function openCheckpoint(name: string, options: OpenOptions = {}): Promise<Checkpoint> {
  return isGguf(name) ? openGgufFile(name, options) : openFolder(name, options);
}

/** Opens a GGUF file and, if it is the first of several parts, the other parts next to it. */
async function openGgufFile(path: string, options: OpenOptions): Promise<Checkpoint> {
  const [folder, first] = splitName(path);
  const file = await openGguf(first, async (name) => {
    const source = await openIfThere(folder, name, options);
    if (source) return source;
    throw new KvError(isUrl(folder) ? urlOf(folder, name).href : `${folder}${name}`, 'expected a file, got none');
  });
  return keepOpen(file, async () => {
    const chatTemplate = templateOf({ metadata: spoken(file.metadata) }, file.name, options),
      config = await configFromGguf(file),
      tokenizer = ggufTokenizer(file.metadata, file.name);
    return {
      config,
      tokenizer,
      ends: ggufEnds(file.metadata).filter((id) => id < config.vocab),
      banned: [],
      weights: checkpointWeights(file, config, 'gguf'),
      chatTemplate,
      hubFiles: async () => ggufHubFiles(config, file.metadata, file.name),
    };
  });
}

/** What a chat template reads of a GGUF file's metadata; a vocabulary's merges would stay in memory with it. */
const SPOKEN = /^tokenizer\.(?:chat_template(?:\.tool_use)?|ggml\.(?:tokens|[be]os_token_id))$/;

const spoken = (metadata: ReadonlyMap<string, unknown>): ReadonlyMap<string, unknown> =>
  new Map([...metadata].filter(([key]) => SPOKEN.test(key)));

/**
 * Returns the chat template: that of the options, or a checkpoint's own, parsed once it is asked for.
 * @throws KvError if that of the options does not parse
 */
function templateOf(
  sources: ChatTemplateSources,
  name: string,
  { chatTemplate: given }: OpenOptions,
): Checkpoint['chatTemplate'] {
  let read: { readonly template: ChatTemplate | undefined } | undefined;
  const template = (): ChatTemplate | undefined => {
    read ??= {
      template:
        given === undefined
          ? readChatTemplate(sources, name)
          : readChatTemplate({ ...sources, jinja: given, toolUse: undefined }, 'chatTemplate'),
    };
    return read.template;
  };
  if (given !== undefined && typeof (given as unknown) !== 'string')
    throw new KvError('chatTemplate', `must be the source of a chat template, got ${show(given)}`);
  if (given !== undefined) template();
  return template;
}

async function openFolder(folder: string, options: OpenOptions): Promise<Checkpoint> {
  const { files } = options;
  if (!blobsOf(files)) await expectFolder(folder);
  const [config, classEnd] = await use(await open(folder, 'config.json', options), async (source) => {
    const json = await readJson(source);
    return [parseConfig(json, source.name), unwrittenEnd(json, source.name)] as const;
  });
  const tokenizer = await use(await open(folder, 'tokenizer.json', options), async (source) =>
    createTokenizer(await readJson(source), source.name, config.vocab),
  );
  if (tokenizer.size > config.vocab)
    throw new KvError(
      folder,
      `tokenizer.json must have at most vocab_size (${config.vocab}) ids without its added tokens, got ${tokenizer.size}`,
    );
  const listed: OpenFile = async (file) =>
    files === undefined || 'get' in files
      ? openIfThere(folder, file, options)
      : files.includes(file)
        ? open(folder, file, options)
        : undefined;
  const read = async <T>(file: string, how: (source: ByteSource) => Promise<T>): Promise<T | undefined> => {
    const source = await listed(file);
    return source && use(source, how);
  };
  const chatTemplate = await folderTemplate(read, folder, options),
    said = await read('generation_config.json', async (source) =>
      generationOf(await readJson(source), config.vocab, source.name),
    ),
    unsaid = config.eosIds.length === 0 && (said?.ends ?? []).length === 0,
    named = unsaid ? namedEnd(await read('tokenizer_config.json', readJson), tokenizer) : undefined,
    file = await openSafetensors(listed, folder);
  // the class's own may be an ordinary word of this vocabulary, at which answers would end too early
  const end = named ?? (unsaid && [...tokenizer.specials.values()].includes(classEnd ?? -1) ? classEnd : undefined);
  return keepOpen(file, async () => {
    const own = await withHead(config, file);
    return {
      config: own,
      tokenizer,
      ends: end === undefined ? (said?.ends ?? []) : [end],
      banned: said?.banned ?? [],
      weights: checkpointWeights(file, own),
      chatTemplate,
      hubFiles: async () => folderFiles(listed, own, tokenizer),
    };
  });
}

/**
 * Returns a folder's text files; those that transformers.js wants and the folder lacks are made from the configuration.
 */
async function folderFiles(
  open: OpenFile,
  config: ModelConfig,
  tokenizer: Tokenizer,
): Promise<ReadonlyMap<string, string>> {
  const files = new Map(wantedFiles(config, (id) => tokenizer.decode([id], { special: true })));
  for (const name of HUB_FILES) {
    const source = await open(name);
    if (source)
      await use(source, async () => files.set(name, new TextDecoder().decode(await source.read(0, source.size))));
  }
  return files;
}

/** Reads a file of a folder, if there is one. */
type ReadFile = <T>(file: string, how: (source: ByteSource) => Promise<T>) => Promise<T | undefined>;

/**
 * Returns what a generation_config.json says of tokens, as transformers' `generate` follows it; those beyond the vocabulary
 * never come.
 */
function generationOf(json: unknown, vocab: number, where: string): Pick<Checkpoint, 'ends' | 'banned'> {
  const fields = object(json, where, 'the configuration');
  const idsOf = (field: string, least: number): readonly number[] => {
    const value = fields[field],
      ids: readonly unknown[] = value == null ? [] : Array.isArray(value) ? value : [value];
    const wrong = ids.find((id) => !(Number.isInteger(id) && (id as number) >= least));
    if (wrong !== undefined)
      throw new KvError(where, `${field} must be a token id or a list of them, got ${show(wrong)}`);
    return (ids as readonly number[]).filter((id) => id >= 0 && id < vocab);
  };
  // -1 is no token: some files write it for none
  return { ends: idsOf('eos_token_id', 0), banned: idsOf('suppress_tokens', -1) };
}

/** Returns the special token that a tokenizer_config.json says ends a text. */
function namedEnd(json: unknown, { specials }: Tokenizer): number | undefined {
  const token = (json as JsonFields | null | undefined)?.eos_token,
    text = typeof token === 'string' ? token : (token as JsonFields | null | undefined)?.content;
  return typeof text === 'string' ? specials.get(text) : undefined;
}

/** Returns a folder's chat template: a file of its own, or a field of tokenizer_config.json, else of chat_template.json. */
async function folderTemplate(
  read: ReadFile,
  folder: string,
  options: OpenOptions,
): Promise<Checkpoint['chatTemplate']> {
  const text = async (source: ByteSource): Promise<string> => {
    if (source.size > maxJson)
      throw new KvError(source.name, `expected a template of at most ${maxJson} bytes, got ${source.size}`);
    return new TextDecoder().decode(await source.read(0, source.size));
  };
  const jinja = await read('chat_template.jinja', text),
    toolUse = jinja === undefined ? undefined : await read('additional_chat_templates/tool_use.jinja', text),
    config = await read('tokenizer_config.json', readJson),
    has = jinja !== undefined || (config as JsonFields | null | undefined)?.chat_template != null,
    processor = has ? undefined : await read('chat_template.json', readJson);
  return templateOf({ jinja, toolUse, config, processor }, folder, options);
}

/** Tables that stay in the file, whose rows are read as tokens come. */
const STAYS = /(?:^|\.)(?:per_layer_token_embd|embed_tokens_per_layer)\.weight$/;

/** Reads from an open file and returns the result with the file to close; if reading fails, closes it. */
async function keepOpen(
  file: CheckpointTensors,
  read: () => Promise<Omit<Checkpoint, 'close' | 'stored'>>,
): Promise<Checkpoint> {
  try {
    return { ...(await read()), stored: storedOf(file, (tensor) => !STAYS.test(tensor)), close: () => file.close() };
  } catch (error) {
    await file.close();
    throw error;
  }
}

async function use<T>(source: ByteSource, read: (source: ByteSource) => Promise<T>): Promise<T> {
  try {
    return await read(source);
  } finally {
    await source.close();
  }
}

const urlOf = (folder: string, file: string): URL => withPath(folder, (path) => `${path}/${file}`);

/** Files that are read whole: configurations, vocabularies, templates and indices. */
const SMALL = /\.(?:json|jinja)$/;

/** Opens a file of a folder. @throws KvError if there is none */
async function open(folder: string, file: string, { files, ...options }: OpenOptions): Promise<ByteSource> {
  const { signal, maxBytes } = options,
    blobs = blobsOf(files);
  if (blobs) {
    const blob = blobs.get(file);
    if (blob) return abortable(blobSource(blob, file), signal);
    throw new KvError(folder, `expected a file ${file}, got ${[...blobs.keys()].slice(0, 8).join(', ') || 'no files'}`);
  }
  if (!isUrl(folder)) return abortable(await fileSource(pathOf(folder, file)), signal);
  const most = SMALL.test(file) ? Math.min(maxBytes ?? maxJson, maxJson) : maxBytes;
  return urlSource(urlOf(folder, file), { ...options, maxBytes: most });
}

/** Opens a file of a folder, or returns undefined if there is none. */
async function openIfThere(folder: string, file: string, options: OpenOptions): Promise<ByteSource | undefined> {
  const blobs = blobsOf(options.files);
  const missing = blobs
    ? !blobs.has(file)
    : isUrl(folder)
      ? await isAbsent(urlOf(folder, file), options)
      : (await builtin<typeof import('node:fs/promises')>('node:fs/promises')
          .stat(pathOf(folder, file))
          .catch(() => undefined)) === undefined;
  return missing ? undefined : open(folder, file, options);
}

function pathOf(folder: string, file: string): string {
  return builtin<typeof import('node:path')>('node:path').join(
    folder.startsWith('file:') ? filePath(folder) : folder,
    file,
  );
}
function filePath(url: string): string {
  try {
    return builtin<typeof import('node:url')>('node:url').fileURLToPath(url);
  } catch (cause) {
    throw new KvError(
      url,
      `expected a file URL such as file:///models/mine, got another (${(cause as Error).message})`,
    );
  }
}

async function expectFolder(folder: string): Promise<void> {
  if (
    isUrl(folder) ||
    (
      await builtin<typeof import('node:fs/promises')>('node:fs/promises')
        .stat(pathOf(folder, '.'))
        .catch(() => undefined)
    )?.isDirectory() === true
  )
    return;
  throw new KvError(
    'model',
    `expected 'embedded', a .gguf file or a folder with config.json, model.safetensors and tokenizer.json, got ${JSON.stringify(folder)}${/^[\w.-]+\/[\w.-]+$/.test(folder) ? '; fetchModel of @kv/hub fetches a model of the hub' : ''}`,
  );
}
