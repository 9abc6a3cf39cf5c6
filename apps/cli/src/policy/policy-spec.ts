import { KvError } from '@kv/core';
import { splitOutside } from '../option-values.ts';

export type OptionValue = number | boolean | string;

/** One name with its options, as reports print it: `snapkv(window=16,kernel=5)`. */
export interface PieceSpec {
  readonly name: string;
  readonly options: Readonly<Record<string, OptionValue>>;
}

/** What stands between pieces that are composed. */
const COMPOSE = '∘';
const NUMBER = /^[+-]?(?:\d+\.?\d*|\.\d+)(?:e[+-]?\d+)?$/i;
const BARE = /^[^\s()=,"∘][^()=,"∘]*$/;

/**
 * Reads a policy as reports print it: one name with options, or several pieces with `∘` between them.
 * @throws KvError in one sentence for anything else
 */
export function parsePolicySpec(text: string): readonly PieceSpec[] {
  return splitPieces(text).map((part) => parsePiece(part.trim(), text));
}

/** The texts of the pieces that are composed. */
export const splitPieces = (text: string): readonly string[] => splitOutside(text, COMPOSE);

function parsePiece(part: string, whole: string): PieceSpec {
  const open = part.indexOf('(');
  const name = (open < 0 ? part : part.slice(0, open)).trim();
  if (name === '' || /[()="]/.test(name) || (open >= 0 && !part.endsWith(')'))) {
    throw new KvError('policy', `expected a name with options such as snapkv(window=16,kernel=5), got ${JSON.stringify(whole)}`);
  }
  const inside = open < 0 ? '' : part.slice(open + 1, -1).trim();
  const options: [string, OptionValue][] = inside === '' ? [] : splitOutside(inside, ',').map((pair) => parsePair(pair, whole));
  const twice = options.find(([key], i) => options.findIndex(([other]) => other === key) < i);
  if (twice) throw new KvError('policy', `expected every option once, got '${twice[0]}' twice in ${JSON.stringify(whole)}`);
  return { name, options: Object.fromEntries(options) };
}

function parsePair(pair: string, whole: string): [string, OptionValue] {
  const [, key, raw] = /^\s*([A-Za-z]\w*)\s*=\s*([^]*?)\s*$/.exec(pair) ?? [];
  if (key !== undefined && raw !== undefined) {
    if (raw.startsWith('"')) {
      const text = quoted(raw);
      if (text !== undefined) return [key, text];
    } else if (BARE.test(raw)) return [key, raw === 'true' || raw === 'false' ? raw === 'true' : NUMBER.test(raw) ? Number(raw) : raw];
  }
  throw new KvError('policy', `expected an option as name=value, got ${JSON.stringify(pair.trim())} in ${JSON.stringify(whole)}`);
}

function quoted(raw: string): string | undefined {
  try {
    const value: unknown = JSON.parse(raw);
    return typeof value === 'string' ? value : undefined;
  } catch {
    return undefined;
  }
}

/** Writes what `parsePolicySpec` reads back. */
export function printPolicySpec(specs: readonly PieceSpec[]): string {
  return specs.map(({ name, options }) => {
    const pairs = Object.entries(options).map(([key, value]) => `${key}=${typeof value === 'string' ? printText(value) : value}`);
    return pairs.length === 0 ? name : `${name}(${pairs.join(',')})`;
  }).join(` ${COMPOSE} `);
}

const printText = (text: string): string =>
  BARE.test(text) && text.trim() === text && !NUMBER.test(text) && text !== 'true' && text !== 'false' ? text : JSON.stringify(text);
