/** Rows of cells, the first of them the head, as a table of Markdown. */
export const table = ([head, ...rows]) =>
  [head, head.map(() => '---'), ...rows].map((cells) => `| ${cells.join(' | ')} |`).join('\n');
