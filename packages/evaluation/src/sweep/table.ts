/** What a column of a table holds, as Parquet has it. */
type Kind = 'STRING' | 'BOOLEAN' | 'INT64' | 'DOUBLE';
type Value = string | number | boolean | undefined;
/** A column of a table of such rows. */
export type Column<R> = readonly [title: string, kind: Kind, value: (row: R) => Value];

/** Lines of a table as CSV (RFC 4180; some end lines with a bare line feed). */
export const csv = (lines: readonly (readonly Value[])[], end = '\r\n'): string =>
  lines.map((cells) => `${cells.map((cell) => quoted(String(cell ?? ''))).join(',')}${end}`).join('');

const quoted = (cell: string): string => (/[",\r\n]/.test(cell) ? `"${cell.replaceAll('"', '""')}"` : cell);

/** Rows as CSV, under the titles of their columns. */
export const csvOf = <R>(columns: readonly Column<R>[], rows: readonly R[]): string =>
  csv([columns.map(([title]) => title), ...rows.map((row) => columns.map(([, , value]) => value(row)))]);

/** Rows as a Parquet file, null where a row has no value: the same rows, the same bytes. */
export async function parquetOf<R>(columns: readonly Column<R>[], rows: readonly R[]): Promise<Uint8Array> {
  const { parquetWriteBuffer } = await import('hyparquet-writer'); // for those alone who write such files
  const columnData = columns.map(([name, type, value]) => ({
    name,
    type,
    data: rows.map((row) => stored(value(row), type)),
  }));
  return new Uint8Array(parquetWriteBuffer({ columnData, createdBy: 'kv' }));
}

const stored = (value: Value, kind: Kind): Value | bigint | null =>
  kind === 'INT64' && typeof value === 'number' ? BigInt(value) : (value ?? null);
