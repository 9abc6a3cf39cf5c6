import { KvError } from '@kv/core';
import type { RepoFile } from './listing.ts';
import { isSafePath } from './repo-name.ts';
import type { RepoName } from './repo-name.ts';

/** Files required in addition to the weights. */
const NEEDED = ['config.json', 'tokenizer.json'];
const BESIDE: readonly string[] = [
  ...NEEDED,
  'tokenizer_config.json',
  'chat_template.jinja',
  'chat_template.json',
  'additional_chat_templates/tool_use.jinja',
  'special_tokens_map.json',
  'generation_config.json',
];
const WEIGHTS = 'model.safetensors',
  INDEX = 'model.safetensors.index.json';
const MAX_INDEX = 64 * 2 ** 20;

/** The files of a repository to download. */
interface Chosen {
  readonly files: readonly RepoFile[];
  /** The one of `files` that is an index of further ones. */
  readonly index?: RepoFile;
  /** The one of `files` that is the whole model, or the first part of it. */
  readonly gguf?: RepoFile;
}

/**
 * Chooses a checkpoint's files, or the GGUF file that the name asks for.
 * @throws KvError that lists what is there instead
 */
export function choose(name: RepoName, files: readonly RepoFile[]): Chosen {
  const { repo, file, quant } = name;
  const at = new Map(files.map((found) => [found.path, found]));
  const weights = at.get(WEIGHTS) ?? at.get(INDEX);
  if (file !== undefined || quant !== undefined || weights === undefined) {
    const parts = pickGguf(name, files);
    return { files: parts, gguf: parts[0] };
  }
  const missing = NEEDED.filter((needed) => !at.has(needed));
  if (missing.length > 0)
    throw new KvError(
      repo,
      `expected ${missing.join(' and ')} next to ${weights.path}, got ${list(files.map(({ path }) => path))}`,
    );
  const chosen = [...BESIDE.flatMap((path) => at.get(path) ?? []), weights];
  return { files: chosen, ...(weights.path === INDEX && { index: weights }) };
}

/** Returns the GGUF file that a name means, or all parts of it, the first one first. */
function pickGguf({ repo, file, quant }: RepoName, files: readonly RepoFile[]): readonly RepoFile[] {
  const at = new Map(files.map((found) => [found.path, found]));
  const all = ggufs([...at.keys()]);
  const fitting =
    file === undefined
      ? all.filter((path) => quant === undefined || isQuant(path, quant))
      : at.has(file)
        ? [firstPart(file)]
        : [];
  if (fitting.length === 0) {
    const wanted =
      file ?? (quant === undefined ? `${WEIGHTS}, ${INDEX} or a .gguf file` : `a .gguf file of type ${quant}`);
    throw new KvError(
      repo,
      `expected ${wanted}, got ${all.length > 0 ? list(all) : `only ${list([...at.keys()].filter((path) => !path.startsWith('.')))}`}`,
    );
  }
  if (fitting.length > 1)
    throw new KvError(
      repo,
      `expected the name of one .gguf file (${repo}:Q4_K_M or ${repo}/file.gguf), got ${list(fitting)}`,
    );
  const first = checkPath(fitting[0], repo),
    parts = partsOf(first);
  return parts.map(
    (path) =>
      at.get(path) ?? fail(repo, `expected all ${parts.length} parts of a model in the repository, got no ${path}`),
  );
}

/**
 * Returns the GGUF files that are models, and not projectors of vision models or importance matrices; of a model in parts
 * the first one.
 */
export const ggufs = (paths: readonly string[]): readonly string[] => [
  ...new Set(paths.filter((path) => /\.gguf$/i.test(path) && !PROJECTOR.test(path) && !isMatrix(path)).map(firstPart)),
];

const PROJECTOR = /(^|[^a-z0-9])mmproj/i,
  TYPE = /(^|[^a-z0-9])(i?q\d|tq\d|b?f16|f32|mxfp4)/i;
/** A model that was quantised by a matrix may name it too, but with its type. */
const isMatrix = (path: string): boolean => /(^|[^a-z0-9])imatrix([^a-z0-9]|$)/i.test(path) && !TYPE.test(path);

/** End of the name of a part, as llama.cpp's gguf-split writes it. */
const PART = /-\d{5}-of-(\d{5})(\.gguf)$/i;

/** Returns the path of the first part of a model of which a path is a part, or the path itself. */
export const firstPart = (path: string): string => path.replace(PART, '-00001-of-$1$2');

/** Returns the paths of all parts of the model of which a path is a part, in order; of another model its own alone. */
export function partsOf(path: string): readonly string[] {
  const [end, count, gguf] = PART.exec(path) ?? [];
  return end === undefined
    ? [path]
    : Array.from(
        { length: Math.max(1, Number(count)) },
        (_, no) => `${path.slice(0, -end.length)}-${String(no + 1).padStart(5, '0')}-of-${count}${gguf}`,
      );
}

/** Returns whether a GGUF file's name contains a type as a whole word: Q4_K is not in model-Q4_K_M.gguf. */
export const isQuant = (path: string, quant: string): boolean =>
  new RegExp(`(^|[/._-])${quant.replace(/\./g, '\\.')}[/.-]`, 'i').test(path);

/**
 * Returns the files that an index on disk names.
 * @throws KvError for an invalid index, a name that leaves the folder, or a file that is not in the repository
 */
export async function shardsOf(
  repo: string,
  { size }: RepoFile,
  read: () => Promise<string>,
  files: readonly RepoFile[],
): Promise<readonly RepoFile[]> {
  if (size > MAX_INDEX) throw new KvError(repo, `expected an index of at most ${MAX_INDEX} bytes, got ${size}`);
  const at = new Map(files.map((file) => [file.path, file]));
  return shardNames(await read(), repo).map(
    (path) => at.get(path) ?? fail(repo, `expected the file ${path} that ${INDEX} names, got none in the repository`),
  );
}

function shardNames(text: string, repo: string): readonly string[] {
  const parsed = json(text) as { readonly weight_map?: unknown } | null;
  const map = parsed !== null && typeof parsed === 'object' ? parsed.weight_map : undefined;
  const names = map !== null && typeof map === 'object' ? [...new Set(Object.values(map))] : [];
  if (names.length === 0 || names.some((name) => typeof name !== 'string'))
    throw new KvError(repo, `expected ${INDEX} to map weights to files, got ${text.slice(0, 80)}`);
  return (names as string[]).map((name) => checkPath(name, repo));
}

function json(text: string): unknown {
  try {
    return JSON.parse(text);
  } catch {
    return undefined;
  }
}

/** Returns whether a folder has all files of a checkpoint; `has` tests a path in it, `read` reads an index. */
export async function isCheckpoint(
  folder: string,
  has: (path: string) => Promise<boolean>,
  read: (path: string) => Promise<string>,
): Promise<boolean> {
  for (const path of NEEDED) if (!(await has(path))) return false;
  if (await has(WEIGHTS)) return true;
  if (!(await has(INDEX))) return false;
  try {
    for (const path of shardNames(await read(INDEX), folder)) if (!(await has(path))) return false;
    return true;
  } catch {
    return false;
  }
}

function checkPath(path: string, repo: string): string {
  return isSafePath(path)
    ? path
    : fail(repo, `expected file names that stay in their folder, got ${JSON.stringify(path.slice(0, 200))}`);
}

function fail(at: string, message: string): never {
  throw new KvError(at, message);
}

/** Lists up to eight names. */
const list = (paths: readonly string[]): string =>
  paths.length === 0
    ? 'no files'
    : `${paths.slice(0, 8).join(', ')}${paths.length > 8 ? ` and ${paths.length - 8} more` : ''}`;
