import { parseArgs } from 'node:util';

/**
 * Parses a path and options; the type of each default decides: a number, a text, a comma-separated list, or a flag;
 * `undefined` is an optional text.
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
