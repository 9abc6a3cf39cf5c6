import { createRequire } from 'node:module';
import { dirname } from 'node:path';
import { defaultClientConditions } from 'vite';

export default {
  base: './', // the page may lie in any folder of a server
  // the model's files go beside the page, which asks for them there
  publicDir: dirname(createRequire(import.meta.url).resolve('@kv/model-embedded/package.json')),
  resolve: { conditions: ['@kv/source', ...defaultClientConditions] }, // in a clone packages run from their sources
  build: { target: 'es2022' },
};
