import { readFile } from 'node:fs/promises';
import { homedir } from 'node:os';
import { join } from 'node:path';
import { KvError } from '@kv/core';

/** Environment variables. */
export type Environment = Readonly<Record<string, string | undefined>>;

/** Returns a variable as a path, with `~` expanded; an empty one counts as unset. */
const path = (env: Environment, name: string): string | undefined =>
  env[name]?.replace(/^~(?=$|\/)/, homedir()) || undefined;

const home = (env: Environment): string =>
  path(env, 'HF_HOME') ?? join(path(env, 'XDG_CACHE_HOME') ?? join(homedir(), '.cache'), 'huggingface');

/** Returns the cache folder that huggingface_hub uses. */
export const cacheFolder = (env: Environment): string =>
  path(env, 'HF_HUB_CACHE') ?? path(env, 'HUGGINGFACE_HUB_CACHE') ?? join(home(env), 'hub');

/** Returns whether the environment forbids the network. */
export const isOffline = (env: Environment): boolean =>
  /^(1|on|yes|true)$/i.test(env.HF_HUB_OFFLINE || env.TRANSFORMERS_OFFLINE || '');

/** Returns the hub's address: `HF_ENDPOINT`, without a trailing slash. @throws KvError if it is not an http(s) URL */
export function endpointOf(env: Environment): string {
  const text = env.HF_ENDPOINT || 'https://huggingface.co';
  if (!/^https?:/.test(text) || !URL.canParse(text))
    throw new KvError('HF_ENDPOINT', `expected an http(s) URL, got ${JSON.stringify(text)}`);
  return text.replace(/\/+$/, '');
}

/**
 * Returns the access token, from a variable or the file that `hf auth login` writes.
 * @throws KvError, which does not show it, if it cannot be sent
 */
export async function tokenOf(env: Environment): Promise<string | undefined> {
  const file = path(env, 'HF_TOKEN_PATH') ?? join(home(env), 'token');
  const given = (env.HF_TOKEN || env.HUGGING_FACE_HUB_TOKEN || (await readFile(file, 'utf8').catch(() => ''))).trim();
  if (/[^\x21-\x7e]/.test(given))
    throw new KvError(
      'HF_TOKEN',
      'expected a token of printable characters without spaces, got others (in the variable, or in the token file)',
    );
  return given || undefined;
}
