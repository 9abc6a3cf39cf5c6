import { KvError } from '@kv/core';

/** A repository of the hub, with at most one selector of a GGUF file in it. */
export interface RepoName {
  /** `org/name`. */
  readonly repo: string;
  /** Path of a .gguf file in it. */
  readonly file?: string;
  /** Type of the wanted GGUF file, such as `Q4_K_M`. */
  readonly quant?: string;
}

/** Form of a name as in huggingface_hub's `validate_repo_id`, with an organisation. */
const REPO = /^([\w-][\w.-]{0,95})\/([\w-][\w.-]{0,95})(?::([\w.-]+)|\/(.+\.gguf))?$/i;

/** Parses the name of a repository. @throws KvError for anything else */
export function parseRepo(text: string): RepoName {
  const repo = repoOf(text);
  if (repo === undefined)
    throw new KvError(
      'model',
      `expected a repository such as org/name, org/name:Q4_K_M or org/name/file.gguf, got ${JSON.stringify(text)}`,
    );
  return repo;
}

/** What a text names, if it is the name of a repository. */
export function repoOf(text: string): RepoName | undefined {
  const [, org, name, quant, file] = REPO.exec(text) ?? [];
  if (org === undefined || name === undefined || !isSafePath(file ?? 'x')) return undefined;
  const repo = `${org}/${name}`;
  if (/--|\.\.|\.(\/|$)|\.git$/.test(repo) || (file === undefined && /\.gguf$/i.test(name))) return undefined;
  return { repo, ...(quant !== undefined && { quant }), ...(file !== undefined && { file }) };
}

/** A relative path with plain parts: nothing that leaves its folder, on any system. */
export const isSafePath = (path: string): boolean =>
  path.length <= 1024 &&
  !/[\\:\0-\x1f]/.test(path) &&
  path.split('/').every((part) => part !== '' && part !== '.' && part !== '..');
