import { Float, number, truthy, typeName, UndefinedValue, type Keywords, type TemplateValue } from './values.ts';
import { TemplateText } from './text.ts';

/** What a function, a filter or a method is called with, read as Python reads it. */
export class Arguments {
  readonly #name: string;
  readonly #values: ReadonlyMap<string, TemplateValue>;

  /** @throws Error for more than `names` has, or others, or a name that is given twice */
  constructor(name: string, names: readonly string[], args: readonly TemplateValue[], keywords: Keywords) {
    if (args.length > names.length)
      throw new Error(`${name}() takes at most ${names.length} arguments, got ${args.length}`);
    const values = new Map(args.map((value, i) => [names[i] as string, value]));
    for (const [key, value] of keywords) {
      if (!names.includes(key)) throw new Error(`${name}() got an unexpected keyword argument '${key}'`);
      if (values.has(key)) throw new Error(`${name}() got multiple values for argument '${key}'`);
      values.set(key, value);
    }
    this.#name = name;
    this.#values = values;
  }

  get(name: string): TemplateValue | undefined {
    return this.#values.get(name);
  }

  /** @throws Error where it is not given */
  need(name: string): TemplateValue {
    const value = this.get(name);
    if (value === undefined) throw new Error(`${this.#name}() missing a required argument: '${name}'`);
    return value;
  }

  flag(name: string, otherwise = false): boolean {
    const value = this.get(name);
    return value === undefined ? otherwise : truthy(value);
  }

  /** A whole number. @throws Error for what is none */
  whole(name: string, otherwise: number): number {
    const value = this.get(name);
    return value === undefined ? otherwise : whole(value);
  }

  /** A text; undefined where it is not given, or None. @throws Error for what is none */
  text(name: string): TemplateText | undefined {
    const value = this.get(name);
    if (value === undefined || value === null || value instanceof TemplateText) return value ?? undefined;
    throw new Error(`${this.#name}() argument '${name}' must be str, not ${typeName(value)}`);
  }
}

/** @throws Error unless Python takes it for an index */
export function whole(value: TemplateValue): number {
  const found = value instanceof Float ? undefined : number(value);
  if (found !== undefined) return found;
  throw new Error(
    value instanceof UndefinedValue ? value.what : `'${typeName(value)}' object cannot be interpreted as an integer`,
  );
}
