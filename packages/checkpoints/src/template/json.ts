import { compareText, TemplateText, TextBuilder } from './text.ts';
import { Dict, Float, floatText, number, Tuple, typeName, wholeText, type TemplateValue } from './values.ts';
import type { RenderWork } from './render-limit.ts';

/** Options of Python's `json.dumps`. */
export interface JsonOptions {
  readonly ascii: boolean;
  /** Indentation of one level; undefined puts everything on one line. */
  readonly indent: string | undefined;
  readonly item: TemplateText;
  readonly key: TemplateText;
  readonly sorted: boolean;
}

/** Python's `json.dumps`. @throws Error for a value that JSON cannot hold */
export function json(value: TemplateValue, options: JsonOptions, work: RenderWork): TemplateText {
  const made = new TextBuilder(work);
  write(value, options, made, work, '\n');
  return made.done();
}

function write(value: TemplateValue, options: JsonOptions, made: TextBuilder, work: RenderWork, line: string): void {
  const { indent, item, key, sorted } = options;
  work.spend(1);
  const plain = scalar(value);
  if (plain !== undefined) made.add(plain);
  else if (value instanceof TemplateText) made.add(quoted(value, options.ascii, work));
  else {
    const inner = indent === undefined ? '' : line + indent;
    const lines = (open: string, count: number, one: (at: number) => void, close: string): void => {
      made.add(open);
      for (let i = 0; i < count; i++) {
        if (i > 0) made.add(item);
        made.add(inner);
        one(i);
      }
      if (count > 0 && indent !== undefined) made.add(line);
      made.add(close);
    };
    const items =
      value instanceof Tuple ? value.items : Array.isArray(value) ? (value as readonly TemplateValue[]) : undefined;
    if (items !== undefined) {
      lines('[', items.length, (i) => write(items[i] as TemplateValue, options, made, work, inner), ']');
      return;
    }
    if (!(value instanceof Dict)) throw new Error(`Object of type ${typeName(value)} is not JSON serializable`);
    const named = value.entries().map(([name, one]) => [keyOf(name), one] as const);
    if (sorted) named.sort(([a], [b]) => compareText(a.text, b.text));
    lines(
      '{',
      named.length,
      (i) => {
        const [name, one] = named[i] as readonly [TemplateText, TemplateValue];
        made.add(quoted(name, options.ascii, work)).add(key);
        write(one, options, made, work, inner);
      },
      '}',
    );
  }
}

function scalar(value: TemplateValue): string | undefined {
  if (value === null) return 'null';
  if (typeof value === 'boolean') return String(value);
  if (typeof value === 'number') return wholeText(value);
  if (!(value instanceof Float)) return undefined;
  if (value.digits !== undefined) return value.digits;
  if (Number.isFinite(value.value)) return floatText(value.value);
  return Number.isNaN(value.value) ? 'NaN' : value.value < 0 ? '-Infinity' : 'Infinity';
}

function keyOf(name: TemplateValue): TemplateText {
  if (name instanceof TemplateText) return name;
  const plain = name === null || number(name) !== undefined ? scalar(name) : undefined;
  if (plain === undefined) throw new Error(`keys must be str, int, float, bool or None, not ${typeName(name)}`);
  return new TemplateText(plain);
}

const NAMED: Readonly<Record<string, string>> = {
  '\n': '\\n',
  '\r': '\\r',
  '\t': '\\t',
  '\f': '\\f',
  '\b': '\\b',
  '\\': '\\\\',
  '"': '\\"',
};

function quoted(text: TemplateText, ascii: boolean, work: RenderWork): TemplateText {
  const escaped = (char: string): string => NAMED[char] ?? `\\u${char.charCodeAt(0).toString(16).padStart(4, '0')}`;
  const pattern = ascii ? /[\\"]|[^ -~]/g : /[\\"\x00-\x1f]/g;
  const inner = text.as(false).map(work, (part) => part.replace(pattern, escaped));
  return new TextBuilder(work).add('"').add(inner).add('"').done();
}
