import { KvError } from '@kv/core';
import type * as Stores from '@kv/stores';
import { entry, installedFolder } from './optional-package.ts';

const NAME = '@kv/stores';

/**
 * Opens a store that several servers share. `@kv/stores`, which speaks to Redis and S3 and which this package does not
 * install, comes from the folder `KV_STORES`, or as installed next to the working folder or this package.
 * @throws KvError if it is not installed, or opens no store
 */
export async function sharedStore(url: string, hours: number, cwd: string): Promise<Stores.SharedStore> {
  const folder = process.env.KV_STORES ?? installedFolder(NAME, cwd) ?? installedFolder(NAME, import.meta.dirname);
  if (folder === undefined)
    throw new KvError(
      '--conversations',
      `expected a folder, or ${NAME} to be installed (npm install ${NAME}) for an address, it was not found from ${cwd}`,
    );
  const { openStore } = (await entry(folder)) as typeof Stores;
  return openStore({ url, hours });
}
