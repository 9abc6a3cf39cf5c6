import type { Plugin } from 'vite';

/** Models that a person asks for by name: the hub, and where it sends a browser for large files. */
const HUB = 'https://huggingface.co https://*.huggingface.co https://*.hf.co';

/**
 * What the page may do: its own files, models of the hub and compiling WebAssembly (the kernel of @kv/models), and no text as code, HTML
 * or address of a script.
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

/** A meta element cannot say who may frame the page, and a worker obeys the headers of its own file. */
export const headers: Readonly<Record<string, string>> = {
  'Content-Security-Policy': [...RULES, "frame-ancestors 'none'"].join('; '),
  'Cross-Origin-Opener-Policy': 'same-origin',
  'Cross-Origin-Resource-Policy': 'same-origin',
  'Permissions-Policy': 'camera=(), geolocation=(), microphone=()',
  'Referrer-Policy': 'no-referrer',
  'X-Content-Type-Options': 'nosniff',
};

/**
 * Writes the content security policy into the page itself, for servers that send no headers. While developing, Vite's
 * own scripts need more.
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
