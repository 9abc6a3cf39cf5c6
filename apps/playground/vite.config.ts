import { readFileSync } from 'node:fs';
import { defineConfig, type UserConfig } from 'vite';
import { embeddedModel } from './bundle/embedded-model.ts';
import { offlineFiles, SERVICE_WORKER } from './bundle/offline-files.ts';
import { headers, policyInPage } from './bundle/policy.ts';

/** What the page never reaches: Node's WebGPU, and grammars. */
const external = ['webgpu', '@kv/grammars'];

/** The pages, by the name of their files. */
const pages = ['index', 'chat', 'machine'];

const { version } = JSON.parse(readFileSync(new URL('../../packages/core/package.json', import.meta.url), 'utf8')) as {
  readonly version: string;
};

const config: UserConfig = defineConfig({
  base: './', // so that it can lie in any folder of a server
  appType: 'mpa', // a missing file is missing, not the page
  resolve: { conditions: ['@kv/source', 'module', 'browser', 'development|production'] },
  define: { __KV__: JSON.stringify(version) },
  plugins: [embeddedModel(), policyInPage(), offlineFiles()],
  worker: { format: 'es', rolldownOptions: { external } },
  build: {
    target: 'es2022',
    modulePreload: { polyfill: false },
    assetsInlineLimit: 0, // the policy allows no data: addresses
    rolldownOptions: {
      external,
      input: {
        ...Object.fromEntries(pages.map((page) => [page, `${page}.html`])),
        'service-worker': 'src/offline/service-worker.ts',
      },
      output: {
        entryFileNames: ({ name }) => (name === 'service-worker' ? SERVICE_WORKER : 'assets/[name]-[hash].js'),
      },
    },
  },
  preview: { headers },
});

export default config;
