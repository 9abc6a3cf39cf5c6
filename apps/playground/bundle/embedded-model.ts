import { createHash } from 'node:crypto';
import { readFileSync } from 'node:fs';
import { createRequire } from 'node:module';
import { dirname, join } from 'node:path';
import type { Plugin } from 'vite';

const files = ['config.json', 'tokenizer.json', 'tokenizer_config.json', 'model.safetensors'];

/**
 * Vite plugin that serves the files of @kv/model-embedded in a folder named by their hash; `__MODEL__` is that folder
 * and its files.
 */
export function embeddedModel(): Plugin {
  const source = dirname(createRequire(import.meta.url).resolve('@kv/model-embedded/config.json'));
  const contents = new Map(files.map((file) => [file, readFileSync(join(source, file))]));
  const hash = createHash('sha256');
  for (const [file, content] of contents) hash.update(`${file} ${content.length}\0`).update(content);
  const folder = `model-${hash.digest('hex').slice(0, 8)}`;
  return {
    name: 'kv:embedded-model',
    config: () => ({ define: { __MODEL__: JSON.stringify({ folder: `${folder}/`, files }) } }),
    configureServer: ({ middlewares }) => {
      middlewares.use(`/${folder}`, ({ url = '' }, response, next) => {
        const content = contents.get(url.slice(1));
        if (content === undefined) next();
        else response.end(content);
      });
    },
    generateBundle() {
      for (const [file, source] of contents) this.emitFile({ type: 'asset', fileName: `${folder}/${file}`, source });
    },
  };
}
