import { KvError } from '@kv/core';
import { parsePolicy } from '@kv/policies';
import { readNpy } from '../../packages/allocators/fixed/src/npy.ts';
import { choose, shardsOf } from '../../packages/hub/src/choose.ts';
import { listing } from '../../packages/hub/src/listing.ts';
import { parseRepo } from '../../packages/hub/src/repo-name.ts';
import { chatTemplate } from '../../packages/checkpoints/src/chat/chat-template.ts';
import { configFromGguf } from '../../packages/checkpoints/src/config/gguf-config.ts';
import { onlyAttention } from '../../packages/checkpoints/src/config/mixers.ts';
import { readGguf } from '../../packages/checkpoints/src/format/gguf.ts';
import { readSafetensors } from '../../packages/checkpoints/src/format/safetensors.ts';
import { bytesSource, readJson } from '../../packages/checkpoints/src/read/source.ts';
import type { CheckpointTensors } from '../../packages/checkpoints/src/format/tensor-file.ts';
import { tensorTypes, toFloat32, weightType } from '../../packages/checkpoints/src/format/tensor-types.ts';
import { checkCounts, checkNumbers } from '../../packages/engine/src/saved/checks.ts';
import { readSaved, writeSaved } from '../../packages/engine/src/saved/file.ts';
import { createTokenizer } from '../../packages/checkpoints/src/tokenizer/tokenizer.ts';
import { ggufTokenizer } from '../../packages/checkpoints/src/tokenizer/gguf.ts';
import type { Tokenizer } from '../../packages/checkpoints/src/tokenizer/interface.ts';
import { seeds } from './seeds.ts';

/** A reader of outside bytes. */
export interface Target {
  /** Accepts the bytes, or refuses them with a KvError; anything else it throws is a fault. */
  readonly fuzz: (bytes: Uint8Array) => Promise<void> | void;
  /** Initial inputs. */
  readonly seeds: () => readonly Uint8Array[];
  /** Words of its grammar. */
  readonly words: readonly string[];
}

/** For the judge: whether an input was accepted, or the sentence of the refusal. */
export interface Verdict {
  readonly taken: boolean;
  readonly why?: string;
}

export async function verdictOf({ fuzz }: Target, bytes: Uint8Array): Promise<Verdict> {
  try {
    await fuzz(bytes);
    return { taken: true };
  } catch (error) {
    if (!KvError.is(error)) throw error;
    if (
      !/^[^\n]+ (?:expected|must|is|has|starts|leaves|needs|reads|takes|cannot|rejects) ?[^\n]*$/.test(error.message) ||
      error.message.length > 4000
    )
      throw new Error(`no sentence: ${error.message.slice(0, 300)}`);
    return { taken: false, why: error.message };
  }
}

const TEXT = 'he hell <s>w\u00f6rld\u{1f94a}  12\n';

function use(tokenizer: Tokenizer): void {
  const { ids, offsets } = tokenizer.encode(TEXT);
  let [start, end] = [0, 0];
  for (const [i, [from, to]] of offsets.entries()) {
    if (!(from >= start && to >= end && from <= to && to <= TEXT.length)) throw new Error(`offsets ${String(offsets)}`);
    if (!(Number(ids[i]) < tokenizer.size)) throw new Error(`id ${ids[i]}`);
    [start, end] = [from, to];
  }
  tokenizer.decode(ids);
}

/** Checks that every tensor has the bytes that its shape needs. */
async function readAll(file: CheckpointTensors): Promise<void> {
  for (const [name, { type, shape }] of file.tensors) {
    const known = weightType(type, name);
    const bytes = await file.bytes(name);
    const { numbers, bytes: block } = tensorTypes[known];
    const count = shape.reduce((all, n) => all * n, 1);
    if (bytes.length !== (count / numbers) * block || toFloat32(known, bytes).length !== count)
      throw new Error(`${name} has ${bytes.length} bytes`);
  }
}

const decoded = (bytes: Uint8Array): string => new TextDecoder().decode(bytes);
const SHAPE = { mixers: onlyAttention(1, { kvHeads: 1, headDim: 4 }), queryHeads: 2, vocab: 16 };

export const targets: Readonly<Record<string, Target>> = {
  gguf: {
    async fuzz(bytes) {
      const file = await readGguf(bytesSource(bytes, 'f'));
      await readAll(file);
    },
    seeds: seeds.gguf,
    words: ['GGUF', 'general.architecture', 'llama', 'general.alignment', 'token_embd.weight'],
  },
  'gguf-model': {
    async fuzz(bytes) {
      const file = await readGguf(bytesSource(bytes, 'f'));
      await configFromGguf(file);
      use(ggufTokenizer(file.metadata, 'f'));
    },
    seeds: seeds.ggufModel,
    words: ['tokenizer.ggml.model', 'gpt2', 'llama', 'smollm', 'qwen2', 'tekken'],
  },
  safetensors: {
    fuzz: async (bytes) => readAll(await readSafetensors(bytesSource(bytes, 'f'))),
    seeds: seeds.safetensors,
    words: ['dtype', 'shape', 'data_offsets', '__metadata__', 'F32', 'BF16', 'F16', 'I64'],
  },
  tokenizer: {
    fuzz: async (bytes) => use(createTokenizer(await readJson(bytesSource(bytes, 'f')), 'f')),
    seeds: seeds.tokenizer,
    words: [
      ...['Split', 'Sequence', 'Digits', 'ByteLevel', 'Metaspace', 'Regex', 'String', 'Isolated', 'Removed', 'NFKC'],
      ...[
        'Prepend',
        'Replace',
        'Strip',
        'Lowercase',
        'TemplateProcessing',
        'SpecialToken',
        '(?:',
        '(?!',
        '\\\\p{L}',
        '{1,3}',
      ],
    ],
  },
  template: {
    fuzz: (bytes) => {
      chatTemplate(
        decoded(bytes),
        't',
      )([
        { role: 'user', content: 'a b' },
        { role: 'assistant', content: 'c' },
      ]);
    },
    seeds: seeds.template,
    words: [
      ...[
        '{{',
        '}}',
        '{%',
        '%}',
        'for',
        'in',
        'endfor',
        'if',
        'elif',
        'else',
        'endif',
        'set',
        'endset',
        'macro',
        'call',
      ],
      ...[
        'messages',
        'tojson',
        'join',
        'sort',
        'replace',
        'namespace',
        'range(',
        'loop.first',
        'dictsort',
        'indent',
        'map',
      ],
    ],
  },
  policy: {
    fuzz: (bytes) => void parsePolicy(decoded(bytes)),
    seeds: seeds.policy,
    words: [' ∘ ', 'snapkv', 'topK', 'window=', 'sum(', 'weighted(', 'linearBudgets', 'caote', '0.5*', '*'],
  },
  cache: {
    fuzz: (bytes) => {
      const { manifest, arrays } = readSaved(bytes, 'f', (given) => {
        checkCounts(given, SHAPE, 'f');
        return SHAPE;
      });
      checkNumbers(manifest, arrays, SHAPE, 'f');
      const again = writeSaved(manifest, arrays, SHAPE);
      if (again.length !== bytes.length || again.some((byte, i) => byte !== bytes[i])) throw new Error('another file');
    },
    seeds: () => seeds.cache(SHAPE),
    words: ['__metadata__', 'format', 'kv-cache', 'lengths', 'ring', 'states', 'columns', 'event', 'kept'],
  },
  npy: {
    fuzz: (bytes) => {
      const axes = 1 + ((bytes.at(-1) ?? 0) % 3);
      const { shape, data } = readNpy('f', bytes.subarray(0, -1), axes);
      if (shape.length !== axes || data.length !== shape.reduce((a, b) => a * b, 1)) throw new Error(String(shape));
    },
    seeds: seeds.npy,
    words: ["'descr'", "'<f4'", "'<f8'", "'shape'", "'fortran_order'", 'False'],
  },
  hub: {
    async fuzz(bytes) {
      // Two responses of the hub, separated by a zero: the revision, and its files.
      const cut = bytes.indexOf(0);
      const answers = [bytes.slice(0, Math.max(0, cut)), bytes.slice(cut + 1)];
      const hub = {
        endpoint: 'https://hub',
        token: undefined,
        tokenAdvice: 'set HF_TOKEN',
        signal: undefined,
        ...{ attempts: 1, backoffMs: 0, timeoutMs: 1000 },
        fetch: async () => new Response(answers.length > 1 ? answers.shift() : answers[0]),
      };
      const name = parseRepo('org/name');
      const { files } = await listing(hub, name.repo, 'main');
      const { files: chosen, index } = choose(name, files);
      if (index !== undefined) await shardsOf(name.repo, index, async () => decoded(answers[0] ?? bytes), files);
      for (const { path } of chosen)
        if (path.includes('..') || path.startsWith('/')) throw new Error(`leaves its folder: ${path}`);
    },
    seeds: seeds.hub,
    words: [
      'sha',
      'siblings',
      'path',
      'size',
      'oid',
      'lfs',
      'type',
      'file',
      'config.json',
      'tokenizer.json',
      'model.safetensors',
    ],
  },
};
