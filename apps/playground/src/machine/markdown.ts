/** A table with what is needed to read it. */
export interface MarkdownTable {
  readonly title: string;
  /** Name and value of each condition under which it was measured. */
  readonly facts: readonly (readonly [name: string, value: string])[];
  readonly columns: readonly string[];
  readonly rows: readonly (readonly string[])[];
  readonly notes: readonly string[];
}

const cell = (text: string): string => text.replaceAll('|', '\\|').replaceAll(/\s+/g, ' ').trim();
const line = (cells: readonly string[]): string => `| ${cells.map(cell).join(' | ')} |`;

/** Writes a report as Markdown; columns after the third are numbers. */
export function markdown({ title, facts, columns, rows, notes }: MarkdownTable): string {
  return [
    `**${title}**`,
    facts.map(([name, value]) => `- ${name}: ${value.replaceAll(/\s+/g, ' ')}`).join('\n'),
    [line(columns), line(columns.map((_, i) => (i === 0 || i === 2 ? '---' : '---:'))), ...rows.map(line)].join('\n'),
    ...notes,
  ]
    .join('\n\n')
    .concat('\n');
}
