import nodeModule from 'node:module';
import { dirname, join } from 'node:path';
import { fileURLToPath, pathToFileURL } from 'node:url';
import { installedFolder } from '../optional-package.ts';

const HERE = dirname(fileURLToPath(import.meta.url));
/** Folders from which kv's packages resolve: kv's own, and that of `@kv/policies`, which depends on the pieces. */
const seen = (): readonly string[] => [HERE, installedFolder('@kv/policies', HERE) ?? []].flat();

/** Resolves one of kv's packages as kv itself does. */
export const ownPackage = (name: string): string | undefined =>
  name.startsWith('@kv/')
    ? seen().reduce<string | undefined>((found, from) => found ?? installedFolder(name, from), undefined)
    : undefined;

type Context = { readonly parentURL?: string };
type Resolve = (specifier: string, context: Context, next: (specifier: string, context: Context) => object) => object;
const LACKS = 'ERR_MODULE_NOT_FOUND';
let registered = false;

/** Makes modules that import a package of kv's and do not find it get kv's copy. */
export function lendOwnPackages(): void {
  if (registered) return;
  registered = true;
  const parents = seen().map((folder) => pathToFileURL(join(folder, 'package.json')).href);
  const resolve: Resolve = (specifier, context, next) => {
    try {
      return next(specifier, context);
    } catch (error) {
      if (!specifier.startsWith('@kv/') || (error as { code?: string }).code !== LACKS) throw error;
      for (const parentURL of parents)
        try {
          return next(specifier, { ...context, parentURL });
        } catch {
          // the next one may see it
        }
      throw error;
    }
  };
  const { registerHooks } = nodeModule as { registerHooks?: (hooks: { resolve: Resolve }) => void };
  if (registerHooks) registerHooks({ resolve });
  else nodeModule.register(`data:text/javascript,${encodeURIComponent(IN_THREAD)}`, { data: parents });
}

/** The same for Node before 22.15, which resolves in a separate thread. */
const IN_THREAD = `
let parents = [];
export const initialize = (given) => { parents = given; };
export async function resolve(specifier, context, next) {
  try {
    return await next(specifier, context);
  } catch (error) {
    if (!specifier.startsWith('@kv/') || error.code !== '${LACKS}') throw error;
    for (const parentURL of parents) {
      const found = await next(specifier, { ...context, parentURL }).catch(() => undefined);
      if (found) return found;
    }
    throw error;
  }
}`;
