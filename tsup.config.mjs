/** JavaScript of one package; declarations come from tsc (tsconfig.build.json). */
export default { target: 'es2022', outDir: 'dist', sourcemap: true, splitting: false, silent: true };
