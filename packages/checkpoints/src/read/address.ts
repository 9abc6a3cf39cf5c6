import { KvError } from '@kv/core';

/** Returns whether a model's name is an address on the web. */
export const isUrl = (name: string): boolean => /^https?:/.test(name);

/** Returns whether a name is that of a GGUF file; in an address, a query may follow it. */
export const isGguf = (name: string): boolean => /\.gguf$/i.test(isUrl(name) ? parsed(name).pathname : name);

/** Returns an address with another path, and its own query. @param path gets the path without slashes at its end */
export function withPath(address: string, path: (own: string) => string): URL {
  const url = parsed(address);
  url.pathname = path(url.pathname.replace(/\/+$/, ''));
  return url;
}

/** Splits the name of a file into its folder, which keeps an address's query, and its own name. */
export function splitName(name: string): readonly [folder: string, file: string] {
  const path = isUrl(name) ? parsed(name).pathname : name.replaceAll('\\', '/'),
    cut = path.lastIndexOf('/') + 1;
  return isUrl(name)
    ? [withPath(name, (own) => own.slice(0, cut)).href, path.slice(cut)]
    : [name.slice(0, cut), name.slice(cut)];
}

function parsed(address: string): URL {
  if (URL.canParse(address)) return new URL(address);
  throw new KvError(address, 'expected an address such as https://example.org/model.gguf, got one that is none');
}
