import { readFileSync } from 'node:fs';

/** Version of this package; in the bundle this module is dist/bin.js. */
export const VERSION: string = (
  JSON.parse(readFileSync(new URL('../package.json', import.meta.url), 'utf8')) as { version: string }
).version;
