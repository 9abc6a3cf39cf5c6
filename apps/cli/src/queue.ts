import { KvError } from '@kv/core';
import type * as Queues from '@kv/queue';
import { entry, installedFolder } from './optional-package.ts';

const NAME = '@kv/queue';

/**
 * The package that speaks to Redis, which this one does not install: in the folder that `KV_QUEUE` names, or beside the
 * working folder or this package. @throws KvError where it is not installed
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
