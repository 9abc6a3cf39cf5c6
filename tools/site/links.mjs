import { dirname, join, normalize, relative } from 'node:path/posix';

/**
 * A page of the repository as a page of the site: relative links lead to other pages (`pageOf`: path in the repository to
 * path in the site), links to what the site does not have become their text, and comments go.
 */
export function asPage(text, file, page, pageOf, hasFile = (_file) => false) {
  const target = (link) => {
    if (link.startsWith('#')) return link;
    const [path, anchor = ''] = link.split(/(?=#)/);
    const at = normalize(join(dirname(file), path)).replace(/\/$/, '');
    const to = pageOf.get(at) ?? pageOf.get(join(at, 'README.md'));
    if (to === undefined) return hasFile(at) ? `/${at}` : undefined;
    const near = relative(dirname(page), to);
    return `${near.startsWith('.') ? near : `./${near}`}${anchor}`;
  };
  return text
    .replace(/^<!--[^]*?-->\n?/gm, '')
    .split(/(^```[^]*?^```)/m)
    .map((part, i) =>
      i % 2 === 1
        ? part
        : part.replace(/(!?)\[((?:[^[\]]|\[[^\]]*\])*)\]\(([^)\s]+)\)/g, (whole, image, label, link) => {
            if (/^[a-z]+:/.test(link)) return whole;
            const to = target(link);
            return to === undefined ? label : `${image}[${label}](${to})`;
          }),
    )
    .join('');
}
