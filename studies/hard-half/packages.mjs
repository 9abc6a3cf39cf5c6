// The packages as built, as the benches have them; under `--conditions=@kv/source` their sources, which Node 24 reads.
import { createRequire } from 'node:module';
import { pathToFileURL } from 'node:url';

const { resolve } = createRequire(new URL('../../bench/package.json', import.meta.url)),
  sources = process.execArgv.includes('--conditions=@kv/source');
export const load = (name) =>
  import(
    sources
      ? new URL(`../../packages/${name}/src/index.ts`, import.meta.url).href
      : pathToFileURL(resolve(`@kv/${name}`)).href
  );
