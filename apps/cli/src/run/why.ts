import { KvError } from '@kv/core';
import type { Model } from '@kv/models';
import { fates } from '@kv/models/engine';
import type { Fate, RecordedEvent } from '@kv/models/engine';

/** Heads of which a reason is written out; the others are counted. */
const SHOWN = 6;
const short = (x: number): string => String(Number(x.toPrecision(4)));

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
        lines = [...gone, ...all.filter(({ stays }) => stays)].slice(0, SHOWN).map(reason),
        rest = all.length - lines.length;
      return `Position ${position}, ${JSON.stringify(tokenizer.decode([ids[position]]))}: left ${gone.length} of ${all.length} KV heads\n${lines.join('')}${rest > 0 ? `  and ${rest} heads more\n` : ''}`;
    })
    .join('');
}

function reason({ layer, head, left, why }: Fate): string {
  const where = `  layer ${layer}, KV head ${head}: `;
  if (!why) return `${where}was never there\n`;
  const { budget, slots, forced, banned, score, rank, mandatory, bar, unit, steps } = why,
    when = left === undefined ? 'stays' : left === 0 ? 'left after the prompt' : `left after ${left} generated tokens`,
    judged = forced
      ? 'a piece forces it'
      : banned
        ? 'a piece bans it'
        : `score ${short(score)} is number ${rank} of ${slots - mandatory} unforced slots, with room for ${Math.max(0, budget - mandatory)}${bar === undefined ? '' : `; the lowest score that stayed is ${short(bar)}`}${unit === undefined ? '' : `; its unit has ${unit} slots, which go together`}`,
    path = steps.length > 1 ? ` (${steps.map(([name, value]) => `${name} ${short(value)}`).join(', ')})` : '';
  return `${where}${when}: ${judged}${path}\n`;
}
