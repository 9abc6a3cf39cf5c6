// With these headers a page may share memory between threads. Without them the model runs on one thread.
const headers = {
  'Cross-Origin-Opener-Policy': 'same-origin',
  'Cross-Origin-Embedder-Policy': 'require-corp',
};

export default {
  base: './', // the page may lie in any folder of a server
  appType: 'mpa', // a missing file is missing
  build: { target: 'es2022' },
  worker: { format: 'es' },
  server: { headers },
  preview: { headers },
};
