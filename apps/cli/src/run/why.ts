import { KvError } from '@kv/core';
import type { Model } from '@kv/models';
import { fates, fateText } from '@kv/models/engine';
import type { RecordedEvent } from '@kv/models/engine';

/** Heads of which a reason is written out; the others are counted. */
const SHOWN = 6;

/** What `--why` names: a position by its number, or each occurrence of a text. @throws KvError for neither */
function named(asked: string, ids: readonly number[], { tokenizer }: Pick<Model, 'tokenizer'>): number[][] {
  if (/^\d{1,9}$/.test(asked) && Number(asked) < ids.length) return [[Number(asked)]];
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
  return starts.map((start) =>
    [...ids.keys()].filter((i) => ends[i] > start && ends[i] - texts[i].length < start + asked.length),
  );
}

/** Why what `--why` names is, or is no longer, in the cache; of a text that stands several times the last. */
export function whyText(
  asked: string,
  events: readonly RecordedEvent[],
  ids: readonly number[],
  model: Pick<Model, 'tokenizer'>,
): string {
  const all = named(asked, ids, model),
    places = all.map(([first]) => first),
    last = all[all.length - 1],
    several =
      all.length > 1
        ? `${JSON.stringify(asked)} stands ${all.length} times, from the positions ${places.slice(-SHOWN).join(', ')}${all.length > SHOWN ? ' and before' : ''} on; this is the last, name a position for another.\n`
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
