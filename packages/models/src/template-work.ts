import { Interpreter, type Environment } from '@huggingface/jinja';

/** A value of the interpreter: text, numbers, lists, and maps by name. */
interface Value {
  readonly type: string;
  readonly value: unknown;
}
type Call = (args: Value[], scope: unknown) => Value;

/** A node of a parsed template. */
interface Node {
  readonly type: string;
  readonly [field: string]: unknown;
}

/** The methods of the library's interpreter that others of its methods call. */
interface Methods {
  evaluate(node: Node | undefined, scope: unknown): Value;
  evaluateBlock(nodes: readonly Node[], scope: unknown): Value;
  evaluateBinaryExpression(node: Node, scope: unknown): Value;
  evaluateMemberExpression(node: Node, scope: unknown): Value;
  evaluateArguments(args: readonly Node[], scope: unknown): [Value[], Map<string, Value>];
  applyFilter(operand: Value, filter: Node, scope: unknown): Value;
}

/** What a rendering may take, and what each character and value of the conversation adds to it. */
const LIMITS = {
  steps: { base: 2 ** 17, each: 2 ** 9 },
  units: { base: 2 ** 25, each: 2 ** 6 },
  value: { base: 2 ** 22, each: 2 ** 2 },
} as const;

/** Stands for a node that has been evaluated already. */
class Known implements Node {
  readonly [field: string]: unknown;
  readonly type = 'Known';
  readonly known: Value;
  constructor(known: Value) {
    this.known = known;
  }
}

/**
 * The library's interpreter with its work counted: nodes evaluated, characters and items of what they give, and, before
 * they run, what filters, methods and conversions to text will do. The limits grow with the conversation alone, so that
 * no template can lift them. @throws Error from `run` once they are reached
 */
export function limited(environment: Environment, conversation: readonly unknown[]): Interpreter {
  const interpreter = new Interpreter(environment);
  const own = interpreter as unknown as Methods;
  const library: Methods = {
    evaluate: own.evaluate.bind(own),
    evaluateBlock: own.evaluateBlock.bind(own),
    evaluateBinaryExpression: own.evaluateBinaryExpression.bind(own),
    evaluateMemberExpression: own.evaluateMemberExpression.bind(own),
    evaluateArguments: own.evaluateArguments.bind(own),
    applyFilter: own.applyFilter.bind(own),
  };
  const work = new RenderWork(sizeOf(conversation));
  /** Nodes whose values become text, and those whose values are looped over. */
  const printed = new WeakSet<Node>();
  const looped = new WeakSet<Node>();

  own.evaluate = (node, scope) => {
    if (node instanceof Known) return node.known;
    work.step(node === undefined ? 0 : bodySize(node));
    if (node?.type === 'For') looped.add(source(node.iterable as Node));
    const result = library.evaluate(node, scope);
    work.made(result);
    if (node !== undefined && isContainer(result)) {
      if (looped.has(node)) work.spend(ITEM * itemsOf(result));
      if (printed.has(node)) work.walk(result, 1, 0);
    }
    return result;
  };
  own.evaluateBlock = (nodes, scope) => {
    work.step(0);
    for (const node of nodes) printed.add(node);
    return library.evaluateBlock(nodes, scope);
  };
  own.evaluateBinaryExpression = (node, scope) => {
    const operator = (node.operator as { readonly value: string }).value;
    if (operator === 'and' || operator === 'or') return library.evaluateBinaryExpression(node, scope);
    const sides = [node.left, node.right].map((side) => own.evaluate(side as Node, scope)) as [Value, Value];
    // A list beside a text becomes a text, and so does each side of `~`.
    if (operator === '~' || isContainer(sides[0]) !== isContainer(sides[1]))
      for (const side of sides) if (isContainer(side)) work.walk(side, 1, 0);
    const [left, right] = sides.map((side) => new Known(side));
    return library.evaluateBinaryExpression({ ...node, left, right }, scope);
  };
  own.evaluateMemberExpression = (node, scope) => {
    const object = own.evaluate(node.object as Node, scope);
    const sliced = (node.property as Node).type === 'SliceExpression';
    const property =
      node.computed === true && !sliced
        ? new Known(own.evaluate(node.property as Node, scope))
        : (node.property as Node);
    const result = library.evaluateMemberExpression({ ...node, object: new Known(object), property }, scope);
    if (result.type !== 'FunctionValue') return result;
    const name = String(property instanceof Known ? property.known.value : property.value);
    return counted(result, name, object);
  };
  own.applyFilter = (operand, filter, scope) => {
    if (filter.type !== 'CallExpression') {
      work.operation(String(filter.value), operand, [], new Map());
      return library.applyFilter(operand, filter, scope);
    }
    const name = String((filter.callee as Node).value);
    // These two look at what is written, which is text.
    const written = name === 'selectattr' || name === 'rejectattr';
    const [args, keywords] = written
      ? [[], new Map<string, Value>()]
      : own.evaluateArguments(filter.args as readonly Node[], scope);
    work.operation(name, operand, args, keywords);
    if (written) return library.applyFilter(operand, filter, scope);
    return library.applyFilter(operand, { ...filter, args: knownArguments(args, keywords) }, scope);
  };

  /** A method of a text or a map whose work is counted before it runs. */
  const counted = (method: Value, name: string, object: Value): Value => {
    const call: Call = (args, scope) => {
      const last = args.at(-1);
      const keywords = last?.type === 'KeywordArgumentsValue' ? (last.value as Map<string, Value>) : new Map();
      work.operation(name, object, keywords.size > 0 ? args.slice(0, -1) : args, keywords);
      return (method.value as Call)(args, scope);
    };
    return new (method.constructor as new (value: Call) => Value)(call);
  };
  return interpreter;
}

/** Units that an item of a list costs where more is done with it than to pass it on. */
const ITEM = 16;

class RenderWork {
  #steps: number;
  #units: number;
  readonly #value: number;
  readonly #limits: { readonly steps: number; readonly units: number };

  constructor(size: number) {
    const limit = ({ base, each }: (typeof LIMITS)[keyof typeof LIMITS]): number => base + each * size;
    this.#steps = limit(LIMITS.steps);
    this.#units = limit(LIMITS.units);
    this.#value = limit(LIMITS.value);
    this.#limits = { steps: this.#steps, units: this.#units };
  }

  step(nodes: number): void {
    this.#steps -= 1 + nodes;
    if (this.#steps < 0) throw new Error(`more than ${this.#limits.steps} steps`);
  }

  spend(units: number): void {
    this.#units -= units;
    if (!(this.#units >= 0)) throw new Error(`work on more than ${this.#limits.units} characters and items together`);
  }

  /** Counts what was made. */
  made({ value }: Value): void {
    const size = typeof value === 'string' || Array.isArray(value) ? value.length : 0;
    if (size > this.#value) throw new Error(`a value of ${size} characters or items`);
    this.spend(size);
  }

  /**
   * Counts all that is in a value, however often it is shared: each character, and for each value `item` and `level`
   * for each level that it stands deep.
   */
  walk(value: Value, times: number, item: number, level = 0): void {
    const { value: inner } = value;
    this.spend(times * ((typeof inner === 'string' ? inner.length : 8) + item));
    const below = item + level;
    if (Array.isArray(inner)) for (const one of inner as Value[]) this.walk(one, times, below, level);
    else if (inner instanceof Map)
      for (const [name, one] of inner as Map<string, Value>) {
        this.spend(times * (name.length + below));
        this.walk(one, times, below, level);
      }
  }

  /** Counts what a filter or a method is about to do with its operand. */
  operation(name: string, operand: Value, args: readonly Value[], keywords: ReadonlyMap<string, Value>): void {
    const argument = (at: number, keyword: string): unknown => (args[at] ?? keywords.get(keyword))?.value;
    const lengthOf = (found: unknown): number =>
      typeof found === 'string' ? found.length : typeof found === 'number' ? Math.max(0, found) : 0;
    const text = typeof operand.value === 'string' ? operand.value : '';
    const items = itemsOf(operand);
    switch (name) {
      case 'tojson': {
        const separators = keywords.get('separators')?.value;
        const between = Array.isArray(separators) ? (separators as Value[]).map(({ value }) => lengthOf(value)) : [];
        const item = between.reduce((a, b) => a + b, 0);
        // Escaped, a character has six.
        this.walk(operand, 6, item, lengthOf(keywords.get('indent')?.value));
        break;
      }
      case 'string':
        this.walk(operand, 1, 0);
        break;
      case 'join':
        this.spend(text.length * lengthOf(argument(0, 'separator')));
        this.walk(operand, 1, lengthOf(argument(0, 'separator')));
        break;
      case 'sort':
      case 'dictsort':
      case 'unique':
        this.walk(operand, 1 + Math.ceil(Math.log2(1 + items)), ITEM + lengthOf(argument(2, 'attribute')));
        break;
      case 'map':
        this.spend(items * (ITEM + lengthOf(keywords.get('attribute')?.value)));
        break;
      case 'indent':
        this.spend(text.length + count(text, '\n') * lengthOf(argument(0, 'width') ?? 4));
        break;
      case 'replace':
        this.spend(text.length + count(text, String(args[0]?.value)) * lengthOf(args[1]?.value));
        break;
      case 'length':
      case 'first':
      case 'last':
      case 'list':
      case 'default':
      case 'safe':
      case 'get':
        break;
      default:
        this.spend(text.length + ITEM * items);
    }
  }
}

/** How often `part` is in a text, its end counted in. */
function count(text: string, part: string): number {
  if (part === '') return text.length + 1;
  let found = 1;
  for (let at = text.indexOf(part); at >= 0; at = text.indexOf(part, at + part.length)) found++;
  return found;
}

function isContainer({ value }: Value): boolean {
  return Array.isArray(value) || value instanceof Map;
}

function itemsOf({ value }: Value): number {
  return Array.isArray(value) ? value.length : value instanceof Map ? value.size : 0;
}

/** What a loop goes over; its condition stands beside it. */
function source(iterable: Node): Node {
  return iterable.type === 'SelectExpression' ? (iterable.lhs as Node) : iterable;
}

function knownArguments(args: readonly Value[], keywords: ReadonlyMap<string, Value>): Node[] {
  return [
    ...args.map((value) => new Known(value)),
    ...Array.from(keywords, ([key, value]) => ({
      type: 'KeywordArgumentExpression',
      key: { value: key },
      value: new Known(value),
    })),
  ];
}

/** Nodes in the body of a macro or a call, which the library goes through each time that it comes to one. */
function bodySize(node: Node): number {
  return node.type === 'Macro' || node.type === 'CallStatement' ? nodesIn(node) : 0;
}

const sizes = new WeakMap<object, number>();

function nodesIn(value: unknown): number {
  if (typeof value !== 'object' || value === null) return 0;
  const known = sizes.get(value);
  if (known !== undefined) return known;
  const parts = value instanceof Map ? [...value].flat() : Object.values(value);
  const size = parts.reduce<number>((sum, part) => sum + nodesIn(part), 1);
  sizes.set(value, size);
  return size;
}

/** Characters and values of what a template is given. */
function sizeOf(value: unknown): number {
  if (typeof value === 'string') return 1 + value.length;
  if (typeof value !== 'object' || value === null) return 1;
  return Object.entries(value).reduce((sum, [name, inner]) => sum + name.length + sizeOf(inner), 1);
}
