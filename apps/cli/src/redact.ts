import { explicitKeys } from '@kv/scorers-sponsorship';

const HIDDEN = '[redacted]';
/** What stands after an anchor: its value, in quotes or not, with the scheme of an HTTP header. */
const VALUE = /^[\s"'`\\]*(?:(?:Bearer|Basic|Token)\s+)?([^\s"'`,;\\]{1,512})/i;

/** A text with what follows the anchors of the sponsorship detectors hidden, and the password of an address. */
export function redact(text: string): string {
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
  return (out + text.slice(done)).replace(/(?<=\b[a-z][a-z0-9+.-]{0,31}:\/\/)[^\s/@]{1,512}(?=@)/gi, HIDDEN);
}
