import nodeModule from 'node:module';
import { dirname, join } from 'node:path';
import { fileURLToPath, pathToFileURL } from 'node:url';
import { installedFolder } from '../optional-package.ts';

const HERE = dirname(fileURLToPath(import.meta.url));
/** Folders that see kv's packages: kv's own, and that of the one whose dependencies the pieces are. */
const seen = (): readonly string[] => [HERE, installedFolder('@kv/policies', HERE) ?? []].flat();

/** A package of kv's own as kv sees it. */
export const ownPackage = (name: string): string | undefined =>
  name.startsWith('@kv/')
    ? seen().reduce<string | undefined>((found, from) => found ?? installedFolder(name, from), undefined)
    : undefined;

type Context = { readonly parentURL?: string };
type Resolve = (specifier: string, context: Context, next: (specifier: string, context: Context) => object) => object;
const LACKS = 'ERR_MODULE_NOT_FOUND';
let registered = false;

/** From now on a module that names a package of kv's own, and does not find it, is given that of kv. */
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

/** The same for Node before 22.15, which resolves in a thread of its own. */
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
