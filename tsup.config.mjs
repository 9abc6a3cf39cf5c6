import { readFileSync } from 'node:fs';

/** tsup leaves dependencies out of a bundle, but not optional ones. */
const { optionalDependencies = {}, bin } = JSON.parse(readFileSync('package.json', 'utf8'));

/** A library is built file by file, so that a bundler leaves out what an app does not import. */
const byFile = {
  name: 'by-file',
  setup: (build) =>
    build.onResolve({ filter: /^\.{1,2}\/.*\.ts$/ }, ({ kind, path }) =>
      kind === 'entry-point' ? undefined : { path: path.replace(/\.ts$/, '.js'), external: true, sideEffects: false },
    ),
};

/** JavaScript of one package; declarations come from tsgo (tsconfig.build.json). */
export default {
  format: 'esm',
  target: 'es2022',
  outDir: 'dist',
  sourcemap: true,
  clean: bin !== undefined, // names of its chunks change
  splitting: bin !== undefined, // a command line loads the command that is named
  silent: true,
  external: Object.keys(optionalDependencies),
  // what a command line bundles finds its imports here: an install for it alone links no other package's
  ...(bin
    ? { esbuildOptions: (options) => Object.assign(options, { nodePaths: ['node_modules'] }) }
    : { entry: ['src/**/*.ts'], esbuildPlugins: [byFile] }),
};
