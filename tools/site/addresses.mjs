/** Addresses of a built site: those that a reader may guess, and those that lead nowhere. */
import { existsSync, mkdirSync, readdirSync, readFileSync, writeFileSync } from 'node:fs';
import { dirname, join } from 'node:path';

const pagesIn = (folder) =>
  readdirSync(folder, { recursive: true, encoding: 'utf8' })
    .map((file) => file.replaceAll('\\', '/'))
    .filter((file) => file.endsWith('.html') && !file.startsWith('playground/'));
const withoutEnding = (file) => file.replace(/\.html$/, '');

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
  // hosts that look for NAME.html first would take it for the folder NAME/, so that gets none
  for (const page of pages) if (page !== '404.html' && !page.endsWith('index.html')) add(withoutEnding(page), page);
  for (const [address, page] of others) add(address, page);
  return leading;
}

/** Makes a page that leads to another one. */
function leadingPage(page, base) {
  const to = base + page;
  return `<!doctype html>
<html lang="en"><head><meta charset="utf-8"><title>${withoutEnding(page)}</title><meta http-equiv="refresh" content="0; url=${to}"><link rel="canonical" href="${to}"></head>
<body><a href="${to}">${withoutEnding(page)}</a></body></html>
`;
}
/** Tells whether a page of a site only leads to another one. */
export const isLeading = (html) => html.includes('<meta http-equiv="refresh"');

/** Tries in the browser what a missing address may mean: the same in lower case, or the folder `/methods/`. */
function tryOther(base) {
  const { pathname, search, hash } = location,
    lower = base + pathname.slice(base.length).toLowerCase(),
    to = lower === pathname ? pathname.replace(/\.html$/, '/') : lower;
  if (to !== pathname) location.replace(to + search + hash);
}

/** Writes those files into a built site. */
export function addGuessable(folder, base, others) {
  for (const [file, page] of guessable(pagesIn(folder), others)) {
    const path = join(folder, file);
    if (existsSync(path)) continue; // where a file system ignores case, the page itself
    mkdirSync(dirname(path), { recursive: true });
    writeFileSync(path, leadingPage(page, base));
  }
  const missing = join(folder, '404.html');
  const script = `<script>(${tryOther})(${JSON.stringify(base)})</script></head>`;
  writeFileSync(
    missing,
    readFileSync(missing, 'utf8').replace('</head>', () => script),
  );
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
