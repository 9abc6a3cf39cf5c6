/** Trusted Types, if the browser has them: allows scripts of this page's own folder, and no text as HTML or code. */
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
