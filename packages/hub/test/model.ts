import { lstatSync, mkdtempSync, readdirSync, readFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join, relative } from 'node:path';
import { fetchModel } from '../src/index.ts';
import type { FetchOptions } from '../src/index.ts';
import { etagOf } from './server.ts';
import type { FakeHub, Repo } from './server.ts';

export const COMMIT: string = 'c0ffee'.padEnd(40, '0');
const json = (value: unknown): Buffer => Buffer.from(JSON.stringify(value));

/** Returns bytes without a short period. */
export const bytes = (length: number, seed = 1): Buffer =>
  Buffer.from(Uint8Array.from({ length }, (_, i) => (Math.imul(i + seed, 2654435761) >>> 13) & 255));

/** A repository with one file of weights and files that are not needed. */
export const single = (weights: Buffer = bytes(200_000)): Repo => ({
  commit: COMMIT,
  files: {
    '.gitattributes': bytes(20),
    'README.md': bytes(30),
    'config.json': json({ a: 1 }),
    'tokenizer.json': json({ b: 2 }),
    'tokenizer_config.json': json({ c: 3 }),
    'chat_template.json': json({ d: 4 }),
    'additional_chat_templates/rag.jinja': bytes(20, 5),
    'additional_chat_templates/tool_use.jinja': bytes(20, 6),
    'pytorch_model.bin': bytes(50),
    'onnx/config.json': json({}),
    'model.safetensors': weights,
  },
});

export const sharded = (
  names: readonly string[] = ['model-00001-of-00002.safetensors', 'model-00002-of-00002.safetensors'],
): Repo => ({
  commit: COMMIT,
  files: {
    'config.json': json({ a: 1 }),
    'tokenizer.json': json({ b: 2 }),
    'model.safetensors.index.json': json({
      metadata: {},
      weight_map: Object.fromEntries(names.map((name, i) => [`w${i}`, name])),
    }),
    'model-00001-of-00002.safetensors': bytes(3000, 1),
    'model-00002-of-00002.safetensors': bytes(4000, 2),
  },
});

export const quantised = (): Repo => ({
  commit: COMMIT,
  files: {
    'README.md': bytes(3),
    'tiny-Q4_K_M.gguf': bytes(500, 3),
    'tiny-Q8_0.gguf': bytes(900, 4),
    'mmproj-tiny-Q8_0.gguf': bytes(90, 5),
    'f16/tiny.f16.gguf': bytes(700, 6),
  },
});

export const cache = (): string => mkdtempSync(join(tmpdir(), 'kv-hub-'));
export const envOf = ({ url }: FakeHub, home: string, more: Record<string, string> = {}): Record<string, string> => ({
  HF_HOME: home,
  HF_ENDPOINT: url,
  ...more,
});

/** Fetches from the local hub with minimal waits. */
export const fetchFrom = (hub: FakeHub, home: string, name = 'org/tiny', options: FetchOptions = {}): Promise<string> =>
  fetchModel(name, {
    attempts: 3,
    backoffMs: 1,
    timeoutMs: 20_000,
    ...options,
    env: envOf(hub, home, options.env as Record<string, string>),
  });

/** Returns every file and link below a folder. */
export const below = (folder: string): string[] =>
  readdirSync(folder, { recursive: true, withFileTypes: true })
    .filter((entry) => !entry.isDirectory())
    .map((entry) => relative(folder, join(entry.parentPath, entry.name)))
    .sort();

/** Returns whether a snapshot holds exactly these files of a repository, as links to blobs named by checksum. */
export function holds(snapshot: string, { files }: Repo, paths: readonly string[]): boolean {
  return (
    String(below(snapshot)) === String([...paths].sort()) &&
    paths.every((path) => {
      const blob = join(snapshot, '../../blobs', etagOf(path, files[path]));
      return (
        lstatSync(join(snapshot, path)).isSymbolicLink() &&
        readFileSync(blob).equals(files[path]) &&
        readFileSync(join(snapshot, path)).equals(files[path])
      );
    })
  );
}

export const CHECKPOINT: readonly string[] = [
  'config.json',
  'tokenizer.json',
  'tokenizer_config.json',
  'chat_template.json',
  'additional_chat_templates/tool_use.jinja',
  'model.safetensors',
];
