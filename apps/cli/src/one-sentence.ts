import { CommanderError } from 'commander';

/** An error as one line. */
export function oneSentence(error: unknown): string {
  const message = error instanceof Error ? error.message : String(error);
  const text = message.replace(/\s*[\r\n]+\s*/g, ' ').trim();
  return error instanceof CommanderError ? text.replace(/^error: /, 'kv: ') : text;
}
