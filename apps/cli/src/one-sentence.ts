import { CommanderError } from 'commander';
import { plain } from './plain.ts';
import { redactSentence } from './redact.ts';

/** Formats an error as one line, without control characters and without credentials that it may quote. */
export function oneSentence(error: unknown, unredacted = false): string {
  const message = error instanceof Error ? error.message : String(error);
  const text = message.replace(/[\r\n]+/g, ' ').trim();
  const said = error instanceof CommanderError ? text.replace(/^error: /, 'kv: ') : text;
  return plain(unredacted ? said : redactSentence(said));
}
