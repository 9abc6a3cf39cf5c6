import { methodOf } from './methods.ts';
import { concat, TemplateText } from './text.ts';
import {
  Callable,
  Dict,
  GroupTuple,
  Namespace,
  number,
  Float,
  RangeValue,
  Tuple,
  typeName,
  UndefinedValue,
  type TemplateValue,
} from './values.ts';
import type { RenderWork } from './render-limit.ts';

/**
 * Evaluates `object.key` (`attribute`), which prefers methods, or `object[key]`, which prefers items. Returns undefined
 * if there is neither.
 * @throws Error for a field of an undefined value
 */
export function itemOf(object: TemplateValue, key: TemplateValue, attribute: boolean, work: RenderWork): TemplateValue {
  if (object instanceof UndefinedValue) throw new Error(object.what);
  const item = (): TemplateValue | undefined => subscript(object, key, work);
  const field = (): TemplateValue | undefined =>
    key instanceof TemplateText ? fieldOf(object, key.text, work) : undefined;
  for (const look of attribute ? [field, item] : [item, field]) {
    const found = look();
    if (found !== undefined) return found;
  }
  const name = object === null ? "'None'" : `'${typeName(object)} object'`;
  return new UndefinedValue(
    key instanceof TemplateText ? `${name} has no attribute '${key.text.slice(0, 60)}'` : `${name} has no such element`,
  );
}

/** Returns an attribute, or undefined for any other field. @throws Error for a field of an undefined value */
export function attributeOf(object: TemplateValue, name: TemplateValue, work: RenderWork): TemplateValue {
  if (object instanceof UndefinedValue) throw new Error(object.what);
  const found = name instanceof TemplateText ? fieldOf(object, name.text, work) : undefined;
  return found ?? new UndefinedValue(`'${typeName(object)} object' has no such attribute`);
}

function fieldOf(object: TemplateValue, name: string, work: RenderWork): TemplateValue | undefined {
  if (object instanceof Namespace) return object.fields.get(name);
  if (object instanceof Callable) return object.fields?.get(name);
  if (object instanceof GroupTuple && name === 'grouper') return object.items[0];
  if (object instanceof GroupTuple && name === 'list') return object.items[1];
  return methodOf(object, name, work);
}

function subscript(object: TemplateValue, key: TemplateValue, work: RenderWork): TemplateValue | undefined {
  if (object instanceof Dict) return Array.isArray(key) || key instanceof Dict ? undefined : object.get(key);
  const index = key instanceof Float ? undefined : number(key);
  if (index === undefined) return undefined;
  const at = <T>(length: number, item: (i: number) => T): T | undefined => {
    const i = index < 0 ? length + index : index;
    return i >= 0 && i < length ? item(i) : undefined;
  };
  if (Array.isArray(object)) return at(object.length, (i) => object[i] as TemplateValue);
  if (object instanceof Tuple) return at(object.items.length, (i) => object.items[i] as TemplateValue);
  if (object instanceof RangeValue) return at(object.length, (i) => object.start + i * object.step);
  if (!(object instanceof TemplateText)) return undefined;
  const begins = object.begins(work);
  return at(object.count(work), (i) => object.slice(begins?.[i] ?? i, begins?.[i + 1] ?? i + 1));
}

/** Returns a nested field of an item: `a.b.0`. */
export function path(item: TemplateValue, attribute: TemplateValue, work: RenderWork): TemplateValue {
  if (!(attribute instanceof TemplateText)) return itemOf(item, attribute, false, work);
  work.spend(attribute.text.length);
  return attribute.text
    .split('.')
    .reduce<TemplateValue>(
      (found, part) => itemOf(found, /^\d+$/.test(part) ? Number(part) : new TemplateText(part), false, work),
      item,
    );
}

/** Python's slices. @throws Error for a value that cannot be sliced */
export function slice(
  object: TemplateValue,
  from: number | null,
  to: number | null,
  step: number,
  work: RenderWork,
): TemplateValue {
  if (object instanceof UndefinedValue) throw new Error(object.what);
  if (step === 0) throw new Error('slice step cannot be zero');
  const begins = object instanceof TemplateText ? object.begins(work) : undefined;
  const length =
    object instanceof TemplateText
      ? (begins?.length ?? object.text.length + 1) - 1
      : (itemsOf(object)?.length ?? Number.NaN);
  if (Number.isNaN(length)) throw new Error(`'${typeName(object)}' object is not subscriptable`);
  const [low, high] = step > 0 ? [0, length] : [-1, length - 1];
  const bound = (i: number): number => Math.min(high, Math.max(low, i < 0 ? i + length : i));
  const [start, stop] = [
    from === null ? (step > 0 ? low : high) : bound(from),
    to === null ? (step > 0 ? high : low) : bound(to),
  ];
  const count = Math.max(0, Math.ceil((stop - start) / step));
  work.made(count);
  const unit = (i: number): number => begins?.[i] ?? i;
  if (object instanceof TemplateText && step === 1)
    return object.slice(unit(start), unit(Math.max(start, stop))).as(object.safe);
  const at = Array.from({ length: count }, (_, i) => start + i * step);
  if (object instanceof TemplateText) return concat(work, ...at.map((i) => object.slice(unit(i), unit(i + 1))));
  const items = itemsOf(object) as readonly TemplateValue[];
  const kept = at.map((i) => items[i] as TemplateValue);
  return object instanceof Tuple ? new Tuple(kept) : kept;
}

function itemsOf(object: TemplateValue): readonly TemplateValue[] | undefined {
  if (Array.isArray(object)) return object;
  if (object instanceof RangeValue)
    return Array.from({ length: object.length }, (_, i) => object.start + i * object.step);
  return object instanceof Tuple ? object.items : undefined;
}
