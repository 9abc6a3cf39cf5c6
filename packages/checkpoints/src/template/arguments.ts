import { Float, number, truthy, typeName, UndefinedValue, type Keywords, type TemplateValue } from './values.ts';
import { TemplateText } from './text.ts';

/** Arguments of a function, filter or method call, bound as Python binds them. */
export class Arguments {
  readonly #name: string;
  readonly #values: ReadonlyMap<string, TemplateValue>;

  /** Binds arguments to `names`. @throws Error for too many, for an unknown name, or for a name given twice */
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

  /** Returns an argument. @throws Error if it is not given */
  need(name: string): TemplateValue {
    const value = this.get(name);
    if (value === undefined) throw new Error(`${this.#name}() missing a required argument: '${name}'`);
    return value;
  }

  flag(name: string, otherwise = false): boolean {
    const value = this.get(name);
    return value === undefined ? otherwise : truthy(value);
  }

  /** Returns an integer argument. @throws Error for any other value */
  whole(name: string, otherwise: number): number {
    const value = this.get(name);
    return value === undefined ? otherwise : whole(value);
  }

  /** Returns a text argument; undefined if it is absent or None. @throws Error for any other value */
  text(name: string): TemplateText | undefined {
    const value = this.get(name);
    if (value === undefined || value === null || value instanceof TemplateText) return value ?? undefined;
    throw new Error(`${this.#name}() argument '${name}' must be str, not ${typeName(value)}`);
  }
}

/** Returns a value as an index. @throws Error unless Python accepts it as one */
export function whole(value: TemplateValue): number {
  const found = value instanceof Float ? undefined : number(value);
  if (found !== undefined) return found;
  throw new Error(
    value instanceof UndefinedValue ? value.what : `'${typeName(value)}' object cannot be interpreted as an integer`,
  );
}
