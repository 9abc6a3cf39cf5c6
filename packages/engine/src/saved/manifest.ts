import { KvError } from '@kv/core';
import { isShare } from '@kv/core/engine';
import type { BudgetShare, PositionSpan, StateSpec } from '@kv/core';
import type { SavedTerm } from '../memory/active-policy.ts';
import { storedForms, type StorageForm } from '../cache/form.ts';
import { object, show, type JsonFields } from '@kv/checkpoints';

/** One state of a piece: what it is and how many columns it has. */
export interface SavedState {
  readonly id: string;
  readonly spec: StateSpec;
  readonly columns: number;
}

/** One layer: slots of each KV head, and what is recorded with them for events. */
export interface SavedLayer {
  readonly lengths: readonly number[];
  readonly aligned: boolean;
  readonly ring: { readonly window: number; readonly seen: number } | null;
  /** Running sums of query heads; `kv`: of KV heads. */
  readonly accumulated: boolean | 'kv';
  readonly block: boolean;
  readonly states: readonly SavedState[];
  /** How many slots have each level, if slots have levels of their own. */
  readonly levels?: readonly number[];
  /** Whether slots add something to their logits; from version 3 on. */
  readonly biases?: true;
  /**
   * Bounds on what was rounded off a key and off a value before they were stored as they are, null where unknown; absent
   * where nothing was; from version 5 on.
   */
  readonly rounded?: readonly [key: number, value: number] | null;
  /** Slots that the last event allowed and kept in each head; null before the first. */
  readonly event: { readonly budgets: readonly number[]; readonly kept: readonly number[] } | null;
}

/** Everything in a saved cache except its arrays. */
export interface SavedManifest {
  readonly version: 1 | 2 | 3 | 4 | 5;
  /** How keys and values are stored; f32 in version 1, which does not say. */
  readonly form: StorageForm;
  /** Fingerprint of the model whose keys and values these are. */
  readonly model: string;
  readonly policy: string;
  /** Positions that no event evicts, whatever the policy; absent in files of older releases. */
  readonly protect?: readonly PositionSpan[];
  readonly budget: number | null;
  /** For a budget in bytes: the bytes. */
  readonly bytes?: number;
  /** For a budget that is a share: the share, and its slots before rounding; `follows`: of all tokens so far. */
  readonly share?: { readonly of: BudgetShare; readonly asked: number; readonly follows: boolean };
  /** Rotary positions that the sequence uses. */
  readonly window: number;
  readonly tokens: number;
  readonly promptLength: number;
  readonly rotaryLength: number;
  readonly decoded: number;
  readonly mostSlots: number;
  /**
   * How far new tokens' rotations lie below their positions, if slots have their own rotations; null if slots never
   * moved.
   */
  readonly shift: number | null;
  /**
   * How many of its first tokens are as a prompt without a policy leaves them, if not all: others were read under a view
   * or frozen, or slots were demoted or replaced.
   */
  readonly unaltered?: number;
  /** Rows of logits. */
  readonly logits: number;
  /** Layers that keep slots. */
  readonly layers: readonly SavedLayer[];
  /** Numbers of the state of each layer that keeps none; absent where all layers keep slots. */
  readonly carried?: readonly number[];
  /** States of rows `model`. */
  readonly states: readonly SavedState[];
  /** The hook that adds a term to attention, and what it reads, where slots were folded into it; from version 4 on. */
  readonly attends?: SavedTerm;
}

/** The largest count of a manifest. */
export const MOST: number = 2 ** 31 - 1;

/**
 * Reads a manifest field by field, so that the result has the writer's fields in the writer's order. @throws KvError
 * naming the field.
 */
export function parseManifest(value: unknown, where: string): SavedManifest {
  const fields = object(value, where, 'the manifest');
  const { version } = fields;
  if (version !== 1 && version !== 2 && version !== 3 && version !== 4 && version !== 5)
    throw new KvError(where, `expected a saved cache of version 1 to 5, got version ${show(version)}`);
  return {
    version,
    form: version === 1 ? 'f32' : word(fields, 'form', Object.keys(storedForms) as StorageForm[], where),
    model: text(fields, 'model', where),
    policy: text(fields, 'policy', where),
    ...(fields.protect !== undefined && { protect: parseSpans(fields, where) }),
    budget: fields.budget === null ? null : count(fields, 'budget', where),
    ...(fields.bytes !== undefined && { bytes: bytesOf(fields, where) }),
    ...(fields.share !== undefined && { share: parseShare(fields.share, where) }),
    window: count(fields, 'window', where),
    tokens: count(fields, 'tokens', where),
    promptLength: count(fields, 'promptLength', where),
    rotaryLength: count(fields, 'rotaryLength', where),
    decoded: count(fields, 'decoded', where),
    mostSlots: count(fields, 'mostSlots', where),
    shift: fields.shift === null ? null : count(fields, 'shift', where),
    ...(fields.unaltered !== undefined && { unaltered: count(fields, 'unaltered', where) }),
    logits: count(fields, 'logits', where),
    layers: items(fields, 'layers', where).map((layer) => parseLayer(layer, version, where)),
    ...(fields.carried !== undefined && { carried: counts(fields, 'carried', where) }),
    states: items(fields, 'states', where).map((state) => parseState(state, where)),
    ...(version > 3 && fields.attends !== undefined && { attends: parseAttends(fields.attends, where) }),
  };
}

/** Reads ranges of positions, ascending and apart. */
function parseSpans(fields: JsonFields, where: string): readonly PositionSpan[] {
  let end = -1;
  return items(fields, 'protect', where).map((value): PositionSpan => {
    const [from, to, ...more] = Array.isArray(value) ? (value as readonly unknown[]) : [],
      ascends = isCount(from) && isCount(to) && end < from && from < to;
    if (!ascends || more.length > 0)
      throw new KvError(where, `protect must be ranges [from, to) of positions that ascend, got ${show(value)}`);
    end = to;
    return [from, to];
  });
}

function parseShare(value: unknown, where: string): NonNullable<SavedManifest['share']> {
  const fields = object(value, where, 'share'),
    of = text(fields, 'of', where),
    asked = finite(fields, 'asked', where);
  if (asked < 0 || !isShare(of))
    throw new KvError(where, `share must be one such as '25%' or '25% of f16', got ${show(of)}`);
  return { of, asked, follows: fields.follows === true };
}

/** A budget may have more bytes than a file may have numbers. */
function bytesOf({ bytes }: JsonFields, where: string): number {
  if (Number.isSafeInteger(bytes) && (bytes as number) > 0) return bytes as number;
  throw new KvError(where, `bytes must be a positive whole number, got ${show(bytes)}`);
}

function parseAttends(value: unknown, where: string): NonNullable<SavedManifest['attends']> {
  const fields = object(value, where, 'attends');
  return {
    by: text(fields, 'by', where),
    states: items(fields, 'states', where).map((id) => textOf(id, 'states', where)),
  };
}

function parseLayer(value: unknown, version: number, where: string): SavedLayer {
  const fields = object(value, where, 'a layer');
  const ring = fields.ring === null ? null : object(fields.ring, where, 'ring'),
    event = fields.event === null ? null : object(fields.event, where, 'event');
  return {
    lengths: counts(fields, 'lengths', where),
    aligned: fields.aligned === true,
    ring: ring && { window: count(ring, 'window', where), seen: count(ring, 'seen', where) },
    accumulated: fields.accumulated === 'kv' ? 'kv' : fields.accumulated === true,
    block: fields.block === true,
    states: items(fields, 'states', where).map((state) => parseState(state, where)),
    ...(fields.levels !== undefined && { levels: counts(fields, 'levels', where) }),
    ...(version > 2 && fields.biases === true && { biases: true }),
    ...(version > 4 && fields.rounded !== undefined && { rounded: parseRounded(fields.rounded, where) }),
    event: event && { budgets: counts(event, 'budgets', where), kept: counts(event, 'kept', where) },
  };
}

function parseRounded(value: unknown, where: string): NonNullable<SavedLayer['rounded']> | null {
  if (value === null) return null;
  const [key, rounded, ...more] = Array.isArray(value) ? (value as readonly unknown[]) : [];
  if (isBound(key) && isBound(rounded) && more.length === 0) return [key, rounded];
  throw new KvError(where, `rounded must be two numbers of at least 0, or null, got ${show(value)}`);
}

const isBound = (value: unknown): value is number => typeof value === 'number' && Number.isFinite(value) && value >= 0;

function parseState(value: unknown, where: string): SavedState {
  const fields = object(value, where, 'a state'),
    spec = object(fields.spec, where, 'spec');
  return {
    id: text(fields, 'id', where),
    spec: {
      kind: word(spec, 'kind', ['slot', 'position', 'unit', 'sequence'], where),
      rows: word(spec, 'rows', ['query', 'kv', 'layer', 'model'], where),
      ...(spec.width !== undefined && { width: count(spec, 'width', where) }),
      ...(spec.init !== undefined && { init: finite(spec, 'init', where) }),
    },
    columns: count(fields, 'columns', where),
  };
}

const isCount = (value: unknown): value is number =>
  Number.isInteger(value) && (value as number) >= 0 && (value as number) <= MOST;

function count(fields: JsonFields, name: string, where: string): number {
  const value = fields[name];
  if (isCount(value)) return value;
  throw new KvError(where, `${name} must be a whole number from 0 to ${MOST}, got ${show(value)}`);
}

function counts(fields: JsonFields, name: string, where: string): readonly number[] {
  const list = items(fields, name, where);
  if (list.every(isCount)) return list;
  throw new KvError(where, `${name} must hold whole numbers from 0 to ${MOST}, got ${show(list)}`);
}

function items(fields: JsonFields, name: string, where: string): readonly unknown[] {
  const value = fields[name];
  if (Array.isArray(value)) return value as readonly unknown[];
  throw new KvError(where, `${name} must be a list, got ${show(value)}`);
}

function text(fields: JsonFields, name: string, where: string): string {
  return textOf(fields[name], name, where);
}
function textOf(value: unknown, name: string, where: string): string {
  if (typeof value === 'string') return value;
  throw new KvError(where, `${name} must be text, got ${show(value)}`);
}

function finite(fields: JsonFields, name: string, where: string): number {
  const value = fields[name];
  if (typeof value === 'number' && Number.isFinite(value)) return value;
  throw new KvError(where, `${name} must be a finite number, got ${show(value)}`);
}

function word<T extends string>(fields: JsonFields, name: string, words: readonly T[], where: string): T {
  const found = words.find((each) => each === fields[name]);
  if (found !== undefined) return found;
  throw new KvError(where, `${name} must be ${words.join(', ')}, got ${show(fields[name])}`);
}
