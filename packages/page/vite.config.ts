import { fileURLToPath } from 'node:url';
import { defineConfig, type UserConfig } from 'vite';

/** What only Node reaches, and grammars, which are larger than all the rest. */
const absent = fileURLToPath(new URL('src/absent.ts', import.meta.url));

const config: UserConfig = defineConfig({
  resolve: {
    conditions: ['@kv/source', 'module', 'browser'],
    alias: { webgpu: absent, '@kv/engine-onnx': absent, '@kv/grammars': absent },
  },
  build: {
    target: 'es2022',
    emptyOutDir: false, // declarations lie there too
    lib: { entry: 'src/index.ts', formats: ['es'], fileName: () => 'kv.min.js' },
    license: { fileName: 'third-party.md' },
    // Vite leaves white space in a library, since bundlers minify it later; this one is for pages
    rolldownOptions: { output: { minify: true, codeSplitting: false } },
  },
});

export default config;
