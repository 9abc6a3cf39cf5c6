/** Parquet type of a column. */
type Kind = 'STRING' | 'BOOLEAN' | 'INT64' | 'DOUBLE';
type Value = string | number | boolean | undefined;
/** A column of a table: title, type and value of a row. */
export type Column<R> = readonly [title: string, kind: Kind, value: (row: R) => Value];

/** Formats lines as CSV (RFC 4180; `end` may be a bare line feed). */
export const csv = (lines: readonly (readonly Value[])[], end = '\r\n'): string =>
  lines.map((cells) => `${cells.map((cell) => quoted(String(cell ?? ''))).join(',')}${end}`).join('');

const quoted = (cell: string): string => (/[",\r\n]/.test(cell) ? `"${cell.replaceAll('"', '""')}"` : cell);

/** Formats rows as CSV with a line of titles. */
export const csvOf = <R>(columns: readonly Column<R>[], rows: readonly R[]): string =>
  csv([columns.map(([title]) => title), ...rows.map((row) => columns.map(([, , value]) => value(row)))]);

/** Encodes rows as a Parquet file, null where a row has no value. The same rows give the same bytes. */
export async function parquetOf<R>(columns: readonly Column<R>[], rows: readonly R[]): Promise<Uint8Array> {
  const { parquetWriteBuffer } = await import('hyparquet-writer'); // loaded only when such files are written
  const columnData = columns.map(([name, type, value]) => ({
    name,
    type,
    data: rows.map((row) => stored(value(row), type)),
  }));
  return new Uint8Array(parquetWriteBuffer({ columnData, createdBy: 'kv' }));
}

const stored = (value: Value, kind: Kind): Value | bigint | null =>
  kind === 'INT64' && typeof value === 'number' ? BigInt(value) : (value ?? null);
