import { KvError, LEVELS } from '@kv/core';
import type { Model } from '@kv/models';
import { counted } from '@kv/core/shared';
import { fates, fateText, placesOf, TokenText } from '@kv/engine';
import { levelsText } from './levels-text.ts';
import type { Fate, RecordedEvent } from '@kv/engine';

/** Maximum heads whose reason is written out, and occurrences of a text that are listed; the others are counted. */
const SHOWN = 6;

/** The target of `--why`: its number of occurrences, and the positions of the last few. */
interface Named {
  readonly times: number;
  readonly places: readonly (readonly number[])[];
}
/** Finds a position by its number, or a text. @throws KvError for neither */
function named(asked: string, tokens: TokenText): Named {
  const { ids } = tokens;
  if (/^\d{1,9}$/.test(asked) && Number(asked) < ids.length) return { times: 1, places: [[Number(asked)]] };
  const places = placesOf(asked, tokens);
  if (places.length === 0)
    throw new KvError(
      '--why',
      `expected a position below ${ids.length} or a text of the run, got ${JSON.stringify(asked.slice(0, 80))}`,
    );
  return {
    times: places.length,
    places: places.slice(-SHOWN).map(([from, to]) => Array.from({ length: to - from }, (_, i) => from + i)),
  };
}

/**
 * Explains in one line why the target of `--why` is, or is no longer, in the cache; for a text that occurs several
 * times, the last that an eviction saw. `detail`: adds the reasons for every token in some layers and KV heads, a line each.
 */
export function whyText(
  asked: string,
  events: readonly RecordedEvent[],
  ids: readonly number[],
  { tokenizer, cacheForm }: Pick<Model, 'tokenizer' | 'cacheForm'>,
  detail = false,
): string {
  const tokens = new TokenText(tokenizer);
  for (const id of ids) tokens.push(id);
  const { times, places } = named(asked, tokens);
  if (events.length === 0) return 'Nothing was evicted.\n';
  const fatesOf = (place: readonly number[]): readonly TokenFates[] =>
    place.map((position) => ({
      position,
      token: tokens.text.slice(...tokens.offsets[position]),
      of: fates(events, position, cacheForm),
    }));
  const all =
      places.map(fatesOf).findLast((place) => place.some(({ of }) => of.some(({ why }) => why !== undefined))) ??
      fatesOf(places[places.length - 1]),
    several =
      times > 1
        ? `${JSON.stringify(asked)} stands ${times} times, from the positions ${places.map(([first]) => first).join(', ')}${times > SHOWN ? ' and before' : ''} on; this is position ${all[0].position}, name a position for another.\n`
        : '';
  return `${several}${summary(all)}\n${detail ? all.map(tokenLines).join('') : ''}`;
}

interface TokenFates {
  readonly position: number;
  readonly token: string;
  /** Its fate in every layer and KV head. */
  readonly of: readonly Fate[];
}

/** Summarizes the fates of tokens in one line: where they were dropped, and whether rules or scores decided it. */
function summary(all: readonly TokenFates[]): string {
  const fatesOf = all.flatMap(({ of }) => of).filter(({ why }) => why !== undefined),
    gone = fatesOf.filter(({ left }) => left !== undefined),
    [first, last] = [all[0].position, all[all.length - 1].position],
    ruled = (kind: 'forced' | 'banned'): string => {
      const by = fatesOf.flatMap(({ why }) => (why?.[kind] ? [why.by ?? 'a piece'] : []));
      return by.length === 0 ? '' : `; ${kind} in ${by.length} by ${[...new Set(by)].join(', ')}`;
    };
  const levels = fatesOf.flatMap(({ why }) => why?.level ?? []),
    stored =
      levels.length === 0
        ? ''
        : `; what stays is stored in ${new Set(levels).size === 1 ? LEVELS[levels[0]] : levelsText(levels)}`;
  const judged = (gone.length > 0 ? gone : fatesOf).flatMap(({ why }) =>
      why && !why.forced && !why.banned ? [why] : [],
    ),
    ranked =
      judged.length === 0
        ? ''
        : `; ranked ${range(judged.map(({ rank }) => rank))} of ${range(judged.map(({ slots, mandatory }) => slots - mandatory))} by score, with room for ${range(judged.map(({ budget, mandatory }) => Math.max(0, budget - mandatory)))}`;
  return `${JSON.stringify(all.map(({ token }) => token).join(''))}: ${counted(all.length, 'token')}, ${all.length === 1 ? `position ${first}` : `positions ${first} to ${last}`}, ${fatesOf.length === 0 ? 'read after the last eviction' : `gone from ${gone.length} of ${fatesOf.length} places (${all.length === 1 ? '' : 'tokens x '}KV heads)${ranked}${stored}${ruled('forced')}${ruled('banned')}`}`;
}

function range(numbers: readonly number[]): string {
  const [least, most] = [Math.min(...numbers), Math.max(...numbers)];
  return least === most ? String(least) : `${least} to ${most}`;
}

/** Explains why one token is, or is no longer, in the cache, in a few lines. */
function tokenLines({ position, token, of }: TokenFates): string {
  const gone = of.filter(({ left }) => left !== undefined),
    lines = [...gone, ...of.filter(({ stays }) => stays)].slice(0, SHOWN).map((fate) => `  ${fateText(fate)}\n`),
    rest = of.length - lines.length;
  return `Position ${position}, ${JSON.stringify(token)}: left ${gone.length} of ${of.length} KV heads\n${lines.join('')}${rest > 0 ? `  and ${rest} heads more\n` : ''}`;
}
