import { KvError } from '@kv/core';
import type { Model } from '@kv/models';
import { fates, fateText } from '@kv/models/engine';
import type { RecordedEvent } from '@kv/models/engine';

/** Heads of which a reason is written out; the others are counted. */
const SHOWN = 6;

/** Positions that `--why` names: one by its number, or those of a text's last occurrence. @throws KvError for neither */
export function positionsOf(asked: string, ids: readonly number[], { tokenizer }: Pick<Model, 'tokenizer'>): number[] {
  if (/^\d{1,9}$/.test(asked) && Number(asked) < ids.length) return [Number(asked)];
  const texts = ids.map((id) => tokenizer.decode([id])),
    ends = texts.map(
      (
        (end) => (text) =>
          (end += text.length)
      )(0),
    ),
    start = asked === '' ? -1 : texts.join('').lastIndexOf(asked);
  if (start < 0)
    throw new KvError(
      '--why',
      `expected a position below ${ids.length} or a text of the run, got ${JSON.stringify(asked.slice(0, 80))}`,
    );
  return [...ids.keys()].filter((i) => ends[i] > start && ends[i] - texts[i].length < start + asked.length);
}

/** Why tokens are, or are no longer, in the cache, in a few lines each. */
export function whyLines(
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
