import { existsSync } from 'node:fs';
import { resolve } from 'node:path';
import { repoOf } from './repo-name.ts';
import type { RepoName } from './repo-name.ts';

/** Meaning of a model's name. */
export type ModelName =
  | { readonly kind: 'embedded' }
  | { readonly kind: 'url'; readonly url: string }
  | { readonly kind: 'gguf' | 'folder'; readonly path: string }
  | ({ readonly kind: 'repo' } & RepoName);

/**
 * Classifies a name: `embedded`, an http(s) or file URL, a path, or a repository (`org/name`, `org/name:Q4_K_M`,
 * `org/name/file.gguf`). Whatever exists under `cwd` is a path, and so is whatever starts with `.`, `/` or `~`,
 * contains a backslash or has no `/`.
 * @param cwd folder that relative paths are resolved from. @defaultValue the process's
 */
export function parseModelName(text: string, cwd: string = process.cwd()): ModelName {
  if (text === 'embedded') return { kind: 'embedded' };
  if (/^(https?|file):/.test(text)) return { kind: 'url', url: text };
  const repo = /^[./~]/.test(text) || text.includes('\0') || existsSync(resolve(cwd, text)) ? undefined : repoOf(text);
  return repo ? { kind: 'repo', ...repo } : { kind: /\.gguf$/i.test(text) ? 'gguf' : 'folder', path: text };
}
