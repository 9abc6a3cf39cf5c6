/**
 * Trusted Types, where the browser has them: scripts come from this page's own folder; nothing may become HTML or code.
 */
interface TrustedTypes {
  createPolicy(name: 'default', rules: { readonly createScriptURL: (url: string) => string }): unknown;
}

(globalThis as { trustedTypes?: TrustedTypes }).trustedTypes?.createPolicy('default', {
  createScriptURL(url) {
    const folder = new URL('.', document.baseURI).href,
      { href } = new URL(url, folder);
    if (href.startsWith(folder)) return url;
    throw new TypeError(`expected a script of ${folder}, got ${href}`);
  },
});
