import { random } from '@kv/tasks';

/** Returns a digest of plain data, in pages too; it is no protection against a forger. */
export function digestOf(value: unknown): string {
  const { next } = random(JSON.stringify(value));
  return Array.from({ length: 4 }, () =>
    Math.floor(next() * 2 ** 32)
      .toString(16)
      .padStart(8, '0'),
  ).join('');
}
