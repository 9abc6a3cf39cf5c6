import { counted, sumOf } from '@kv/core/shared';
import { heldPlaces, heldShares, type HeldPlace } from '@kv/engine';
import type { Chat, Sequence } from '@kv/models';

/** A conversation: its cache, and what the cache does not hold yet. */
type Talk = Pick<Chat, 'sequence' | 'unread'>;

/** Returns the text of the tokens that the cache does not hold yet: the last one of an answer is read with the next message. */
export function unreadText({ sequence, unread }: Talk): string {
  const decoder = sequence.progress.text.decoder();
  return unread.map((id) => decoder.push(id)).join('') + decoder.end();
}

/**
 * Renders the conversation with dropped text marked, followed by the counts.
 * @param unread text that the cache does not hold yet
 */
export function droppedText(
  sequence: Pick<Sequence, 'progress' | 'kept'>,
  mark: (text: string) => string,
  unread = '',
): string {
  const { text, offsets } = sequence.progress.text,
    rows = sequence.kept(),
    shares = heldShares(rows, offsets.length),
    kept = sumOf(rows.flat().map((row) => row.length)),
    dropped = offsets.length * rows.flat().length - kept;
  let out = '',
    run = '',
    low = false,
    end = 0;
  const flush = (): void => {
    out += low && run !== '' ? mark(run) : run;
    run = '';
  };
  for (const [i, [from, to]] of offsets.entries()) {
    // Of tokens that share a character, the first shows it.
    const piece = text.slice(Math.max(from, end), to);
    end = Math.max(end, to);
    if (piece === '') continue;
    if (shares[i] < 0.5 !== low) {
      flush();
      low = !low;
    }
    run += piece;
  }
  flush();
  const percent = (count: number): string => `${Math.round((100 * count) / Math.max(1, shares.length))} %`,
    half = shares.filter((share) => share >= 0.5).length,
    none = shares.filter((share) => share === 0).length;
  return `${out}${unread}\n${counted(shares.length, 'token')}: ${percent(half)} are kept by half of the layers and KV heads or more, ${percent(none)} dropped by all; of ${counted(kept + dropped, 'slot')}, ${kept} are kept and ${dropped} dropped\n`;
}

/** Says how much of a text is kept, in each of the last places where it stands in the conversation. */
export function whereText(talk: Talk, text: string): string {
  const name = JSON.stringify(text.slice(0, 80)),
    places = heldPlaces(talk.sequence, text);
  if (places.length === 0)
    return unreadText(talk).includes(text)
      ? `${name} is the end of the answer, which is read with the next message\n`
      : `${name} is not in the conversation\n`;
  if (places.length === 1) return `${name}: ${heldText(places[0])}\n`;
  const shown = places.slice(-PLACES),
    first = places.length - shown.length;
  return [
    `${name} stands in ${places.length} places${first > 0 ? `, the last ${PLACES} of which are` : ''}:\n`,
    ...shown.map((place, i) => `  place ${first + i + 1}: ${heldText(place)}\n`),
  ].join('');
}
/** Most places of a text that are told. */
const PLACES = 5;

/** Says how much of a place is kept. */
function heldText({ tokens, layers, share }: HeldPlace): string {
  const percent = (of: number): string => `${Math.round(100 * of)} %`,
    best = layers.indexOf(Math.max(...layers)),
    worst = layers.indexOf(Math.min(...layers));
  return `${counted(tokens.length, 'token')}, ${percent(share)} kept${layers[best] === layers[worst] ? ', in every layer alike' : `, from ${percent(layers[worst])} in layer ${worst} to ${percent(layers[best])} in layer ${best}`}`;
}
