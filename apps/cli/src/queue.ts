import { KvError } from '@kv/core';
import type * as Queues from '@kv/queue';
import { entry, installedFolder } from './optional-package.ts';

const NAME = '@kv/queue';

/**
 * Imports `@kv/queue`, which speaks to Redis and which this package does not install: from the folder `KV_QUEUE`, or as
 * installed next to the working folder or this package. @throws KvError if it is not installed
 */
export async function queuePackage(cwd: string): Promise<typeof Queues> {
  const folder = process.env.KV_QUEUE ?? installedFolder(NAME, cwd) ?? installedFolder(NAME, import.meta.dirname);
  if (folder === undefined)
    throw new KvError(
      '--queue',
      `expected ${NAME} to be installed (npm install ${NAME}), it was not found from ${cwd}`,
    );
  return (await entry(folder)) as typeof Queues;
}
