import { KvError } from '@kv/core';
import { object, show, type JsonFields } from '../read/fields.ts';
import { tokenId } from './added-tokens.ts';
import { parts } from './parts.ts';

/** Ids that a tokenizer adds before and after a text. */
export interface TokenAffixes {
  readonly before: readonly number[];
  readonly after: readonly number[];
}

/**
 * Returns what the `post_processor` of a tokenizer.json adds to a single text.
 * @throws KvError naming an unknown post-processor
 */
export function postProcessor(json: unknown, where: string): TokenAffixes {
  return parts(json, 'processors', where)
    .map((part) => around(part, where))
    .reduce(
      (inner, outer) => ({ before: [...outer.before, ...inner.before], after: [...inner.after, ...outer.after] }),
      { before: [], after: [] },
    );
}

/** Maximum number of tokens that a template may add around a text. */
const MOST = 64;

function around(part: JsonFields, where: string): TokenAffixes {
  if (part.type === 'ByteLevel') return { before: [], after: [] };
  if (part.type === 'BertProcessing' || part.type === 'RobertaProcessing')
    return { before: [pairId(part.cls, where)], after: [pairId(part.sep, where)] };
  if (part.type !== 'TemplateProcessing' || !Array.isArray(part.single))
    throw new KvError(
      where,
      `expected a post-processor of TemplateProcessing, ByteLevel, BertProcessing or RobertaProcessing, got ${show(part)}`,
    );
  const special = object(part.special_tokens ?? {}, where, 'special_tokens');
  const few = (count: number): void => {
    if (count > MOST) throw new KvError(where, `expected at most ${MOST} tokens around a text, got ${count}`);
  };
  few(part.single.length);
  const [before, after]: [number[], number[]] = [[], []];
  let seen = false;
  for (const piece of part.single as unknown[]) {
    const { SpecialToken, Sequence } = object(piece, where, 'post_processor.single[]');
    if (SpecialToken == null) {
      if (object(Sequence ?? null, where, 'post_processor.single[].Sequence').id !== 'A')
        throw new KvError(
          where,
          `post_processor.single[] must have the sequence A or a special token, got ${show(piece)}`,
        );
      seen = true;
    } else {
      const ids = idsOf(object(SpecialToken, where, 'SpecialToken').id, special, where);
      few(ids.length);
      (seen ? after : before).push(...ids);
    }
  }
  return { before, after };
}

function idsOf(name: unknown, special: JsonFields, where: string): number[] {
  const ids =
    typeof name === 'string' && Object.hasOwn(special, name)
      ? object(special[name], where, 'special_tokens').ids
      : undefined;
  if (!Array.isArray(ids))
    throw new KvError(where, `post_processor.special_tokens must have the ids of ${show(name)}, got ${show(ids)}`);
  return ids.map((id: unknown) => tokenId(id, name, where));
}

function pairId(pair: unknown, where: string): number {
  const [token, id] = Array.isArray(pair) ? (pair as unknown[]) : [pair];
  return tokenId(id, token, where);
}
