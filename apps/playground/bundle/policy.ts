import type { Plugin } from 'vite';

/** Origins of models of the Hugging Face hub, including where it redirects large files. */
const HUB = 'https://huggingface.co https://*.huggingface.co https://*.hf.co';

/**
 * Content security policy of the page: its own files, models of the hub and compiling WebAssembly (the kernel of
 * @kv/models), and no text as code, HTML or address of a script.
 */
const RULES = [
  "default-src 'none'",
  "script-src 'self' 'wasm-unsafe-eval'",
  "worker-src 'self'",
  `connect-src 'self' ${HUB}`,
  "style-src 'self'",
  "img-src 'self'",
  "manifest-src 'self'",
  "base-uri 'none'",
  "form-action 'none'",
  "require-trusted-types-for 'script'",
  'trusted-types default',
];

/**
 * Headers for what a meta element cannot set: who may frame the page. A worker needs them too, since it obeys those of
 * its own file.
 */
export const headers: Readonly<Record<string, string>> = {
  'Content-Security-Policy': [...RULES, "frame-ancestors 'none'"].join('; '),
  'Cross-Origin-Opener-Policy': 'same-origin',
  'Cross-Origin-Resource-Policy': 'same-origin',
  'Permissions-Policy': 'camera=(), geolocation=(), microphone=()',
  'Referrer-Policy': 'no-referrer',
  'X-Content-Type-Options': 'nosniff',
};

/**
 * Vite plugin that writes the content security policy into the page, for servers that send no headers. Not during
 * development, when Vite's own scripts need more.
 */
export const policyInPage = (): Plugin => ({
  name: 'kv:policy-in-page',
  apply: 'build',
  transformIndexHtml: () => [
    {
      tag: 'meta',
      attrs: { 'http-equiv': 'Content-Security-Policy', content: RULES.join('; ') },
      injectTo: 'head-prepend',
    },
  ],
});
