import { Callable, equal, Tuple, UndefinedValue, type TemplateValue } from './values.ts';
import type { RenderWork } from './render-limit.ts';

const CONSTANTS: ReadonlyMap<string, TemplateValue> = new Map<string, TemplateValue>([
  ['true', true],
  ['True', true],
  ['false', false],
  ['False', false],
  ['none', null],
  ['None', null],
]);

/** Names of a block; a lookup falls back to the enclosing blocks. */
export class TemplateScope {
  readonly #around: TemplateScope | undefined;
  readonly #own: Map<string, TemplateValue>;

  constructor(around: TemplateScope | undefined, names?: ReadonlyMap<string, TemplateValue>) {
    this.#around = around;
    this.#own = new Map(names);
  }

  get(name: string): TemplateValue {
    const constant = CONSTANTS.get(name);
    if (constant !== undefined) return constant;
    for (let scope: TemplateScope | undefined = this; scope !== undefined; scope = scope.#around) {
      const found = scope.#own.get(name);
      if (found !== undefined) return found;
    }
    return new UndefinedValue(`'${name.slice(0, 60)}' is undefined`);
  }

  set(name: string, value: TemplateValue): void {
    this.#own.set(name, value);
  }
}

/** The `loop` variable of a loop over `items`, in `depth` loops of which each calls the next. */
export class LoopState {
  readonly #items: readonly TemplateValue[];
  readonly #work: RenderWork;
  readonly #depth: number;
  readonly #again: ((items: TemplateValue) => TemplateValue) | undefined;
  #at = -1;
  #last: TemplateValue | undefined;

  /** @param again renders the loop over other items; absent where it is not recursive */
  constructor(
    items: readonly TemplateValue[],
    work: RenderWork,
    depth: number,
    again?: (items: TemplateValue) => TemplateValue,
  ) {
    [this.#items, this.#work, this.#depth, this.#again] = [items, work, depth, again];
  }

  /** Returns the `loop` of the next item. */
  next(): Callable {
    const at = ++this.#at;
    const call = ([items, ...more]: readonly TemplateValue[]): TemplateValue => {
      if (this.#again === undefined)
        throw new Error("The loop must have the 'recursive' marker to be called recursively.");
      if (items === undefined || more.length > 0) throw new Error('a loop is called with what it goes through');
      return this.#again(items);
    };
    return new Callable('loop', call, { get: (name) => this.#field(name, at) });
  }

  #field(name: string, at: number): TemplateValue | undefined {
    const { length } = this.#items;
    switch (name) {
      case 'index':
        return at + 1;
      case 'index0':
        return at;
      case 'revindex':
        return length - at;
      case 'revindex0':
        return length - at - 1;
      case 'first':
        return at === 0;
      case 'last':
        return at === length - 1;
      case 'length':
        return length;
      case 'depth':
        return this.#depth;
      case 'depth0':
        return this.#depth - 1;
      case 'previtem':
        return at > 0 ? (this.#items[at - 1] as TemplateValue) : new UndefinedValue('there is no previous item');
      case 'nextitem':
        return at + 1 < length ? (this.#items[at + 1] as TemplateValue) : new UndefinedValue('there is no next item');
      case 'cycle':
        return new Callable('cycle', (args) => {
          if (args.length === 0) throw new Error('no items for cycling given');
          return args[at % args.length] as TemplateValue;
        });
      case 'changed':
        return new Callable('changed', (args) => {
          const now = new Tuple(args);
          const same = this.#last !== undefined && equal(this.#last, now, this.#work);
          this.#last = now;
          return !same;
        });
    }
    return undefined;
  }
}
