import { explicitKeys } from '@kv/scorers-sponsorship';

const HIDDEN = '[redacted]';
/** What stands after an anchor: its value, in quotes or not, with the scheme of an HTTP header; shorter ones are words. */
const VALUE = /^[\s"'`\\]*(?:(?:Bearer|Basic|Token)\s+)?([^\s"'`,;\\]{4,512})/i;

/** A text with what follows the anchors of the sponsorship detectors hidden, and who an address is asked for by. */
export const redact = (text: string): string => withoutUser(withoutValues(text));

/** An error, whose quotations stand behind ", got": the names before it are kv's own words. */
export function redactSentence(sentence: string): string {
  const at = sentence.indexOf(', got ');
  return at < 0 ? withoutUser(sentence) : withoutUser(sentence.slice(0, at)) + redact(sentence.slice(at));
}

const withoutUser = (text: string): string =>
  text.replace(/(?<=\b[a-z][a-z0-9+.-]{0,31}:\/\/)[^\s/@]{1,512}(?=@)/gi, HIDDEN);

function withoutValues(text: string): string {
  let [out, done] = ['', 0];
  const anchors = explicitKeys({ ids: [0], text, offsets: [[0, text.length]] });
  for (const { start, text: anchor } of anchors) {
    const end = start + anchor.length;
    const value = VALUE.exec(text.slice(end));
    if (value?.[1] === undefined || end < done) continue;
    const from = end + value[0].length - value[1].length;
    out += text.slice(done, from) + HIDDEN;
    done = from + value[1].length;
  }
  return out + text.slice(done);
}
