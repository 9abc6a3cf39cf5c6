import { readFileSync } from 'node:fs';

/** tsup leaves dependencies out of a bundle, but not optional ones. */
const { optionalDependencies = {} } = JSON.parse(readFileSync('package.json', 'utf8'));

/** JavaScript of one package; declarations come from tsc (tsconfig.build.json). */
export default {
  target: 'es2022',
  outDir: 'dist',
  sourcemap: true,
  splitting: false,
  silent: true,
  external: Object.keys(optionalDependencies),
};
