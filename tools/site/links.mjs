import { dirname, join, normalize, relative } from 'node:path/posix';

/**
 * Converts a Markdown file of the repository to a page of the site: relative links lead to other pages (`pageOf`: path
 * in the repository to path in the site), links to what the site does not have become their text, package names in code
 * become links, and comments are removed.
 */
export function asPage(text, file, page, pageOf, hasFile = (_file) => false) {
  const near = (to) => relative(dirname(page), to).replace(/^(?!\.)/, './');
  const target = (link) => {
    if (link.startsWith('#')) return link;
    const [path, anchor = ''] = link.split(/(?=#)/);
    const at = normalize(join(dirname(file), path)).replace(/\/$/, '');
    const to = pageOf.get(at) ?? pageOf.get(join(at, 'README.md'));
    if (to === undefined) return hasFile(at) ? `/${at}` : undefined;
    return `${near(to)}${anchor}`;
  };
  return text
    .replace(/^<!--[^]*?-->\n?/gm, '')
    .split(/(^```[^]*?^```)/m)
    .map((part, i) =>
      i % 2 === 1
        ? part
        : part.replace(
            /(!?)\[((?:[^[\]]|\[[^\]]*\])*)\]\(([^)\s]+)\)|`(@kv\/[\w-]+)`/g,
            (whole, image, label, link, name) => {
              if (name !== undefined) return pageOf.has(name) ? `[${whole}](${near(pageOf.get(name))})` : whole;
              if (/^([a-z]+:|\/)/.test(link)) return whole; // an address on the web, or of the site itself
              const to = target(link);
              return to === undefined ? label : `${image}[${label}](${to})`;
            },
          ),
    )
    .join('');
}
