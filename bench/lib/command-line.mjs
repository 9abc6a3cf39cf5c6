import { parseArgs } from 'node:util';

/**
 * Options of the command line and its path, as their defaults are: numbers, texts, lists of them between commas, and
 * flags; `undefined` is a text that may be left out.
 */
export function commandLine(defaults, path) {
  const { values, positionals } = parseArgs({
    allowPositionals: path !== undefined,
    options: Object.fromEntries(
      Object.entries(defaults).map(([name, value]) => [name, { type: value === false ? 'boolean' : 'string' }]),
    ),
  });
  if (path !== undefined && positionals.length !== 1)
    throw new Error(`expected ${path}, got ${positionals.length === 0 ? 'none' : positionals.join(' ')}`);
  const read = (text, fallback) =>
    text === undefined
      ? fallback
      : typeof fallback === 'number'
        ? Number(text)
        : Array.isArray(fallback)
          ? text.split(',').map(typeof fallback[0] === 'number' ? Number : String)
          : text;
  return {
    path: positionals[0],
    ...Object.fromEntries(Object.entries(defaults).map(([name, fallback]) => [name, read(values[name], fallback)])),
  };
}
