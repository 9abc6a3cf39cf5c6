import { KvError } from '@kv/core';
import type { Option, PositionSpan } from '@kv/core';
import { joinedSpans, showValue } from '@kv/core/engine';
import { promptRoles, type PromptRole, type RenderedChat, type Tokenizer } from '@kv/checkpoints';
import { TokenText } from '../memory/text.ts';

/**
 * What no eviction may drop of a prompt: a part of a conversation by its name, a text wherever it stands in the prompt
 * (`{ text }` for one that is such a name), or positions `[from, to)`.
 */
export type ProtectedPart = PromptRole | (string & {}) | { readonly text: string } | PositionSpan;

/** Whether it is a part by its name or a range of positions, and no text. */
export const isPlace = (one: ProtectedPart): boolean => isRole(one) || Array.isArray(one);
/** The text that is protected where it is no place. */
export const textOfProtected = (one: ProtectedPart): string =>
  typeof one === 'string' ? one : (one as { readonly text: string }).text;

const isRole = (x: unknown): x is PromptRole => (promptRoles as readonly unknown[]).includes(x),
  isWhole = (x: unknown): boolean => Number.isSafeInteger(x) && (x as number) >= 0;
/** Whether a value names what no eviction may drop. */
const isProtected = (x: unknown): x is ProtectedPart =>
  (typeof x === 'string' && x !== '') ||
  (Array.isArray(x) && x.length === 2 && x.every(isWhole) && x[0] < x[1]) ||
  (typeof x === 'object' && x !== null && !Array.isArray(x) && Object.keys(x).join() === 'text' && isText(x));
const isText = (x: object): boolean => 'text' in x && typeof x.text === 'string' && x.text !== '';

/** Most entries of a list. */
const MOST = 64;
const names = promptRoles.map((role) => `'${role}'`).join(', ');
const said = (what: string): Pick<Option<unknown>, 'says' | 'otherwise'> => ({
  says: `What no eviction may drop: ${what}; it counts within the budget.`,
  otherwise: 'nothing more than the policy keeps',
});
/** What no eviction may drop of a prompt. */
export const PROTECT: Option<readonly ProtectedPart[] | undefined> = {
  default: undefined,
  ...said(`${names} of a conversation, texts of the prompt, or ranges [from, to) of positions`),
  form: {
    sort: 'value',
    want: `up to ${MOST} of ${names}, texts of the prompt, { text } and ranges [from, to) of positions`,
    fits: (x) => Array.isArray(x) && x.length <= MOST && x.every(isProtected),
    texts: true,
    words: promptRoles,
  },
};
/** What no eviction may drop of any conversation. */
export const PROTECT_ALWAYS: Option<readonly Exclude<ProtectedPart, PositionSpan>[] | undefined> = {
  default: undefined,
  ...said(`${names} of a conversation, or texts wherever they stand in one`),
  form: {
    sort: 'value',
    want: `up to ${MOST} of ${names}, texts and { text }`,
    fits: (x) => Array.isArray(x) && x.length <= MOST && x.every((one) => isProtected(one) && !Array.isArray(one)),
    texts: true,
    words: promptRoles,
  },
};

/** A prompt in which something is protected. */
export interface ProtectedPrompt {
  readonly ids: readonly number[];
  readonly tokenizer: Tokenizer;
  /** The rendered text of a conversation that the ids encode, and where its named parts stand in it. */
  readonly conversation?:
    | {
        readonly rendered: RenderedChat;
        /** Whether the tokenizer's own special tokens were added. @defaultValue false */
        readonly special?: boolean;
        readonly ranges: Readonly<Record<PromptRole, readonly (readonly [number, number])[]>>;
      }
    | undefined;
  /** Whether a text may be missing. @defaultValue false */
  readonly partial?: boolean;
}

/**
 * Returns the positions of what is protected, ordered and disjoint. A named part that the conversation does not have has
 * none.
 * @throws KvError for a text that does not stand in the prompt, a range outside it, and a name without a conversation
 */
export function protectedSpans(protect: readonly ProtectedPart[], prompt: ProtectedPrompt): readonly PositionSpan[] {
  let known: TokenText | undefined;
  const text = (): TokenText => (known ??= textOf(prompt)),
    spans = protect.flatMap((one): readonly PositionSpan[] => {
      if (isRole(one)) return spansOfRole(one, prompt);
      if (Array.isArray(one)) {
        const [from, to] = one as unknown as PositionSpan;
        if (from < to && to <= prompt.ids.length) return [[from, to]];
        throw new KvError(
          'protect',
          `expected ranges of the ${prompt.ids.length} positions of the prompt, got [${from}, ${to})`,
        );
      }
      const wanted = textOfProtected(one),
        found = placesOf(wanted, text());
      if (found.length > 0 || prompt.partial === true) return found;
      throw new KvError(
        'protect',
        `expected ${names} or a text that stands in the prompt, got ${showValue(wanted)}, which does not`,
      );
    });
  return joinedSpans(spans);
}

/** Returns a note on each named part that is to be protected and that the conversation does not have. */
export const missingParts = (
  protect: readonly ProtectedPart[],
  { conversation }: Pick<ProtectedPrompt, 'conversation'>,
): readonly string[] =>
  protect.flatMap((one) =>
    isRole(one) && conversation?.ranges[one].length === 0
      ? [`'${one}' is to be protected, and the conversation has none`]
      : [],
  );

function textOf({ ids, tokenizer }: ProtectedPrompt): TokenText {
  const text = new TokenText(tokenizer);
  for (const id of ids) text.push(id);
  return text;
}

/** Returns the positions of every place of a text, those of tokens that hold a part of it. */
export function placesOf(
  wanted: string,
  { text, offsets }: { readonly text: string; readonly offsets: readonly PositionSpan[] },
): readonly PositionSpan[] {
  const places: PositionSpan[] = [];
  let first = 0;
  for (let at = wanted === '' ? -1 : text.indexOf(wanted); at >= 0; at = text.indexOf(wanted, at + 1)) {
    while (offsets[first][1] <= at) first++; // places ascend
    let to = first;
    while (to < offsets.length && offsets[to][0] < at + wanted.length) to++;
    places.push([first, to]);
  }
  return places;
}

/** Characters encoded after a part, so that the tokens at its end are those of the whole prompt. */
const MARGIN = 512;

function spansOfRole(role: PromptRole, { ids, tokenizer, conversation }: ProtectedPrompt): readonly PositionSpan[] {
  if (!conversation)
    throw new KvError(
      'protect',
      `expected messages, of which '${role}' is a part, got a prompt without: { text: '${role}' } is a text`,
    );
  const { rendered, special = false, ranges } = conversation,
    end = Math.max(0, ...ranges[role].map(([, to]) => to)) + MARGIN;
  if (ranges[role].length === 0) return [];
  const { offsets } = tokenizer.encode(rendered.text.slice(0, end), {
    special,
    untrusted: rendered.untrusted.flatMap(([from, to]) => (from < end ? [[from, Math.min(to, end)] as const] : [])),
  });
  return ranges[role].map(([from, to]): PositionSpan => {
    const covered = offsets.map(([start, stop]) => start < to && stop > from);
    // tokens without text, such as one that begins every prompt, belong to what follows them
    const first = from === 0 ? 0 : covered.indexOf(true);
    return [first, Math.min(ids.length, covered.lastIndexOf(true) + 1)];
  });
}
