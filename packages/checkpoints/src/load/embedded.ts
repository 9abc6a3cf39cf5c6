import { KvError } from '@kv/core';
import { builtin } from '../read/builtin.ts';

/** Returns the folder of `@kv/model-embedded`, or the one that `KV_EMBEDDED_DIR` names. */
export function embeddedFolder(): string {
  const own = typeof process === 'object' ? process.env.KV_EMBEDDED_DIR : undefined;
  if (own !== undefined && own !== '') return own;
  const require = builtin<typeof import('node:module')>('node:module').createRequire(import.meta.url);
  try {
    return builtin<typeof import('node:path')>('node:path').dirname(require.resolve('@kv/model-embedded/config.json'));
  } catch {
    throw new KvError(
      'embedded',
      'the package @kv/model-embedded is not installed next to @kv/models: install it, or set KV_EMBEDDED_DIR to its folder',
    );
  }
}
