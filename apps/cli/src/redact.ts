import { redact, withoutUser } from '@kv/scorers-sponsorship';
import type { Terminal } from './terminal.ts';

/** Redacts an error message, whose quotations follow ", got": the names before it are kv's own words. */
export function redactSentence(sentence: string): string {
  const at = sentence.indexOf(', got ');
  return at < 0 ? withoutUser(sentence) : withoutUser(sentence.slice(0, at)) + redact(sentence.slice(at));
}

/**
 * Returns a function that redacts texts of a report, each given the text `before` it; reports once that some are
 * hidden.
 */
export function reporter({ stderr, unredacted }: Terminal): (text: string, before?: string) => string {
  let said = false;
  return (text, before = '') => {
    const shown = unredacted ? text : redact(text, before);
    if (shown !== text && !said)
      stderr.write("values after keys such as 'password:' are hidden: --unredacted shows them\n");
    said ||= shown !== text;
    return shown;
  };
}
