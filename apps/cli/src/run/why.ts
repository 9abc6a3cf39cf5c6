import { KvError } from '@kv/core';
import type { Model } from '@kv/models';
import { fates, fateText } from '@kv/models/engine';
import type { RecordedEvent } from '@kv/models/engine';

/** Heads of which a reason is written out, and places of a text that are named; the others are counted. */
const SHOWN = 6;

/** What `--why` names: how often it stands, and the positions of the last few times. */
interface Named {
  readonly times: number;
  readonly places: readonly (readonly number[])[];
}
/** A position by its number, or a text. @throws KvError for neither */
function named(asked: string, ids: readonly number[], { tokenizer }: Pick<Model, 'tokenizer'>): Named {
  if (/^\d{1,9}$/.test(asked) && Number(asked) < ids.length) return { times: 1, places: [[Number(asked)]] };
  const texts = ids.map((id) => tokenizer.decode([id])),
    whole = texts.join(''),
    ends = texts.map(
      (
        (end) => (text) =>
          (end += text.length)
      )(0),
    );
  const starts: number[] = [];
  if (asked !== '') for (let at = whole.indexOf(asked); at >= 0; at = whole.indexOf(asked, at + 1)) starts.push(at);
  if (starts.length === 0)
    throw new KvError(
      '--why',
      `expected a position below ${ids.length} or a text of the run, got ${JSON.stringify(asked.slice(0, 80))}`,
    );
  const positionsFrom = (start: number): number[] =>
    [...ids.keys()].filter((i) => ends[i] > start && ends[i] - texts[i].length < start + asked.length);
  return { times: starts.length, places: starts.slice(-SHOWN).map(positionsFrom) };
}

/** Why what `--why` names is, or is no longer, in the cache; of a text that stands several times the last. */
export function whyText(
  asked: string,
  events: readonly RecordedEvent[],
  ids: readonly number[],
  model: Pick<Model, 'tokenizer'>,
): string {
  const { times, places } = named(asked, ids, model),
    last = places[places.length - 1],
    several =
      times > 1
        ? `${JSON.stringify(asked)} stands ${times} times, from the positions ${places.map(([first]) => first).join(', ')}${times > SHOWN ? ' and before' : ''} on; this is the last, name a position for another.\n`
        : '';
  return several + whyLines(events, last, ids, model);
}

/** Why tokens are, or are no longer, in the cache, in a few lines each. */
function whyLines(
  events: readonly RecordedEvent[],
  positions: readonly number[],
  ids: readonly number[],
  { tokenizer }: Pick<Model, 'tokenizer'>,
): string {
  if (events.length === 0) return 'Nothing was evicted.\n';
  return positions
    .map((position) => {
      const all = fates(events, position),
        gone = all.filter(({ left }) => left !== undefined),
        lines = [...gone, ...all.filter(({ stays }) => stays)].slice(0, SHOWN).map((fate) => `  ${fateText(fate)}\n`),
        rest = all.length - lines.length;
      return `Position ${position}, ${JSON.stringify(tokenizer.decode([ids[position]]))}: left ${gone.length} of ${all.length} KV heads\n${lines.join('')}${rest > 0 ? `  and ${rest} heads more\n` : ''}`;
    })
    .join('');
}
