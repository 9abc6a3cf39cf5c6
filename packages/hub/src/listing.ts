import { KvError } from '@kv/core';
import { get, readAll } from './http.ts';
import type { Hub } from './http.ts';
import { acceptResponse } from './refusal.ts';
import { retrying } from './retry.ts';

/** A file of a repository at one commit. */
export interface RepoFile {
  readonly path: string;
  /** Size in bytes. */
  readonly size: number;
  /** Checksum, and name of its blob: sha256 (64 digits) of a large file, git's sha1 (40) of a small one. */
  readonly etag: string;
}

/** A commit of a repository and its files. */
export interface Listing {
  readonly commit: string;
  /** Identifier of its licence, such as `apache-2.0`, if the repository names one. */
  readonly license: string | undefined;
  readonly files: readonly RepoFile[];
}

/** A full commit hash. */
export const COMMIT: RegExp = /^[0-9a-f]{40}$/;
const MAX_ANSWER = 32 * 2 ** 20,
  MAX_FILES = 100_000;

/**
 * Returns the commit of a revision and its files.
 * @throws KvError in one sentence if the hub refuses or answers wrongly
 */
export async function listing(hub: Hub, repo: string, revision: string): Promise<Listing> {
  // Imported here since it is not needed if the model is already cached.
  const { listFiles, modelInfo } = await import('./api.ts');
  const options = { hubUrl: hub.endpoint, fetch: apiFetch(hub, repo, revision) };
  try {
    const { sha: commit, tags } = await modelInfo({
      ...options,
      name: repo,
      revision,
      additionalFields: ['sha', 'tags'],
    });
    if (typeof commit !== 'string' || !COMMIT.test(commit))
      throw new KvError(hub.endpoint, `expected the commit of ${repo}, got ${JSON.stringify(commit)}`);
    const files: RepoFile[] = [];
    let entries = 0;
    for await (const entry of listFiles({
      ...options,
      repo: { type: 'model', name: repo },
      revision: commit,
      recursive: true,
    })) {
      if (++entries > MAX_FILES) throw new KvError(repo, `expected at most ${MAX_FILES} files, got more`);
      if (entry.type === 'file') files.push(checkedFile(entry, repo));
    }
    return { commit, files, license: licenseIn(tags) };
  } catch (error) {
    // How the library reports a response that is not JSON, or JSON of another shape.
    if (error instanceof SyntaxError || error instanceof TypeError)
      throw new KvError(hub.endpoint, `expected the hub's answers about ${repo}, got ${error.message}`);
    throw error;
  }
}

/** Returns the licence that a repository's tags name, if its identifier is a short word. */
const licenseIn = (tags: unknown): string | undefined =>
  (Array.isArray(tags) ? tags : [])
    .map((tag) => /^license:([\w.+-]{1,60})$/.exec(String(tag))?.[1])
    .find((license) => license !== undefined);

function checkedFile(
  {
    path,
    size,
    oid,
    lfs,
  }: {
    readonly path: unknown;
    readonly size: unknown;
    readonly oid?: unknown;
    readonly lfs?: { readonly oid: unknown; readonly size: unknown } | null;
  },
  repo: string,
): RepoFile {
  const bytes = lfs ? lfs.size : size,
    etag = lfs ? lfs.oid : oid;
  if (
    typeof path !== 'string' ||
    typeof etag !== 'string' ||
    !(lfs ? /^[0-9a-f]{64}$/ : COMMIT).test(etag) ||
    !Number.isSafeInteger(bytes) ||
    (bytes as number) < 0
  )
    throw new KvError(
      repo,
      `expected files with path, size and checksum, got ${JSON.stringify({ path, size: bytes, oid: etag }).slice(0, 300)}`,
    );
  return { path, size: bytes as number, etag };
}

/**
 * Returns a fetch for the library with this package's token rule, retries, timeouts and sentences, and
 * a limit on length.
 */
const apiFetch =
  (hub: Hub, repo: string, revision: string): typeof fetch =>
  (input) => {
    const url = String(input);
    if (new URL(url).origin !== new URL(hub.endpoint).origin)
      throw new KvError(
        hub.endpoint,
        `expected the next page on the same host, got ${JSON.stringify(url.slice(0, 200))}`,
      );
    return retrying(hub, hub.endpoint, async () => {
      const answer = acceptResponse(await get(hub, url, { accept: 'application/json' }), hub, { repo, revision });
      return new Response(await readAll(answer, hub.endpoint, MAX_ANSWER), {
        headers: { link: answer.headers.get('link') ?? '' },
      });
    });
  };
