/** Addresses of a built site: those that a reader may guess, and those that lead nowhere. */
import { existsSync, mkdirSync, readdirSync, readFileSync, writeFileSync } from 'node:fs';
import { dirname, join } from 'node:path';
import { join as joinPath, relative as relativePath } from 'node:path/posix';

const pagesIn = (folder) =>
  readdirSync(folder, { recursive: true, encoding: 'utf8' })
    .map((file) => file.replaceAll('\\', '/'))
    .filter((file) => file.endsWith('.html') && !file.startsWith('playground/'));
const withoutEnding = (file) => file.replace(/(?:(?:^|\/)index)?\.html$/, '');

/**
 * Returns the files that lead to a page from an address which is not its own: without `.html`, with a slash at its end
 * (hosts differ in which they know), in lower case, and `others`.
 * @param {readonly string[]} pages files of the site
 * @param {ReadonlyMap<string, string>} others addresses without ending, and the file that each leads to
 * @returns {Map<string, string>} a file to write, and the page that it leads to
 */
export function guessable(pages, others) {
  const all = new Set(pages),
    leading = new Map();
  const add = (address, page) => {
    for (const name of new Set([address, address.toLowerCase()]))
      for (const file of [`${name}.html`, `${name}/index.html`])
        if (name !== '' && !all.has(file) && !leading.has(file)) leading.set(file, page);
  };
  for (const page of pages) if (page !== '404.html') add(withoutEnding(page), page);
  for (const [address, page] of others) add(address, page);
  return leading;
}

/** Makes a page that leads to another one, by a relative address, so that the site can lie below any path. */
function leadingPage(file, page) {
  const to = relativePath(joinPath(file, '..'), page).replace(/(^|\/)index\.html$/, '$1') || './';
  return `<!doctype html>
<html lang="en"><head><meta charset="utf-8"><title>${withoutEnding(page)}</title><meta http-equiv="refresh" content="0; url=${to}"><link rel="canonical" href="${to}"></head>
<body><a href="${to}">${withoutEnding(page)}</a></body></html>
`;
}
/** Tells whether a page of a site only leads to another one. */
export const isLeading = (html) => html.includes('<meta http-equiv="refresh"');

/** Tries an address that no page has in lower case, as `/methods/SnapKV`. */
const tryLowerCase = (base) =>
  `<script>{const{pathname:p,search,hash}=location,low=p.slice(0,${base.length})+p.slice(${base.length}).toLowerCase();if(low!==p)location.replace(low+search+hash)}</script>`;

/** Writes those files into a built site. */
export function addGuessable(folder, base, others) {
  for (const [file, page] of guessable(pagesIn(folder), others)) {
    const path = join(folder, file);
    if (existsSync(path)) continue; // where a file system ignores case, the page itself
    mkdirSync(dirname(path), { recursive: true });
    writeFileSync(path, leadingPage(file, page));
  }
  const missing = join(folder, '404.html');
  writeFileSync(missing, readFileSync(missing, 'utf8').replace('</head>', `${tryLowerCase(base)}</head>`));
}

/** Returns the addresses in the pages of a built site that lead to no file of it, as `PAGE: ADDRESS`. */
export function deadAddresses(folder, base) {
  const site = `http://site${base}`,
    dead = [];
  for (const page of pagesIn(folder))
    for (const [, address] of readFileSync(join(folder, page), 'utf8').matchAll(
      /<[a-z][^<>]*\s(?:href|src)="([^"]*)"/g,
    )) {
      const { origin, pathname } = new URL(address.replaceAll('&amp;', '&'), site + page);
      if (origin !== 'http://site') continue;
      const file = join(folder, decodeURIComponent(pathname.slice(base.length)));
      if (
        !pathname.startsWith(base) ||
        !(existsSync(file) && (pathname.endsWith('/') ? existsSync(join(file, 'index.html')) : true))
      )
        dead.push(`${page}: ${address}`);
    }
  return dead;
}
