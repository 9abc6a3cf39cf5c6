/** Formats rows of cells, the first of them the head, as a Markdown table. */
export const table = ([head, ...rows]) =>
  [head, head.map(() => '---'), ...rows].map((cells) => `| ${cells.join(' | ')} |`).join('\n');
