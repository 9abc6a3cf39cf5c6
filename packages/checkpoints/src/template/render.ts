import { filter } from './filters.ts';
import { itemOf, slice } from './lookup.ts';
import { COMPARES, comparison, operate, sign, unpack } from './operators.ts';
import { GROUP, NOT, RECURSIVE, TEST, TUPLE, WITH, type TemplateNode } from './syntax.ts';
import { test } from './tests.ts';
import { TemplateText, TextBuilder } from './text.ts';
import {
  Callable,
  Dict,
  Float,
  iterate,
  Namespace,
  toText,
  truthy,
  Tuple,
  typeName,
  UndefinedValue,
  type Keywords,
  type TemplateValue,
} from './values.ts';
import { whole } from './arguments.ts';
import { LoopState, TemplateScope } from './scope.ts';
import type { RenderWork } from './render-limit.ts';

/** How a block ended early. */
type Ended = 'break' | 'continue' | undefined;

const NO_KEYWORDS: Keywords = new Map();

/**
 * Renders a parsed template as Jinja does, counting its work.
 * @throws Error for what Jinja refuses, or for too much work
 */
export class Renderer {
  readonly #work: RenderWork;
  readonly #uses = new WeakMap<TemplateNode, ReadonlySet<string>>();

  constructor(work: RenderWork) {
    this.#work = work;
  }

  render(program: TemplateNode, names: ReadonlyMap<string, TemplateValue>): TemplateText {
    const scope = new TemplateScope(undefined, names);
    return this.#text(program.body, new TemplateScope(scope));
  }

  #text(nodes: readonly TemplateNode[], scope: TemplateScope): TemplateText {
    const made = new TextBuilder(this.#work);
    this.#block(nodes, scope, made);
    return made.done();
  }

  #block(nodes: readonly TemplateNode[], scope: TemplateScope, out: TextBuilder): Ended {
    for (const node of nodes) {
      const ended = this.#statement(node, scope, out);
      if (ended !== undefined) return ended;
    }
    return undefined;
  }

  #statement(node: TemplateNode, scope: TemplateScope, out: TextBuilder): Ended {
    this.#work.step();
    switch (node.type) {
      case 'Comment':
        return undefined;
      case 'StringLiteral':
        out.add(node.value);
        return undefined;
      case 'If':
        return this.#block(truthy(this.#value(node.test, scope)) ? node.body : node.alternate, scope, out);
      case 'For':
        return this.#loop(node, scope, out);
      case 'Set':
        if (node.value) this.#assign(node.assignee, this.#value(node.value, scope), scope);
        else this.#capture(node.assignee, this.#text(node.body, new TemplateScope(scope)), scope);
        return undefined;
      case 'Macro':
        scope.set(node.name.value, this.#macro(node, node.name.value, node.args, scope));
        return undefined;
      case 'CallStatement': {
        const caller = this.#macro(node, 'caller', node.callerArgs ?? [], scope);
        const [args, keywords] = this.#arguments(node.call.args, scope);
        const called = this.#call(
          this.#value(node.call.callee, scope),
          args,
          new Map([...keywords, ['caller', caller]]),
        );
        out.add(toText(called, this.#work));
        return undefined;
      }
      case 'FilterStatement':
        if (node.filter.type === 'CallExpression' && node.filter.callee.value === WITH)
          return this.#block(node.body, this.#with(node.filter.args, scope), out);
        out.add(toText(this.#filter(node.filter, this.#text(node.body, new TemplateScope(scope)), scope), this.#work));
        return undefined;
      case 'Break':
        return 'break';
      case 'Continue':
        return 'continue';
      default:
        out.add(toText(this.#value(node, scope), this.#work));
        return undefined;
    }
  }

  /** Assigns a block's text to a name, through the filters that follow it. */
  #capture(target: TemplateNode, text: TemplateValue, scope: TemplateScope): void {
    const filters: TemplateNode[] = [];
    let name = target;
    for (; name.type === 'FilterExpression'; name = name.operand) filters.unshift(name.filter);
    this.#assign(
      name,
      filters.reduce((value, one) => this.#filter(one, value, scope), text),
      scope,
    );
  }

  /** Returns a scope with names and their values, which are those around it. */
  #with(given: readonly TemplateNode[], scope: TemplateScope): TemplateScope {
    const [args, names] = this.#arguments(given, scope);
    if (args.length > 0) throw new Error("expected names and their values after 'with'");
    return new TemplateScope(scope, names);
  }

  #loop(node: TemplateNode, scope: TemplateScope, out: TextBuilder): Ended {
    const { iterable } = node;
    return this.#each(
      node,
      this.#value(iterable.type === 'SelectExpression' ? iterable.lhs : iterable, scope),
      scope,
      out,
      1,
    );
  }

  /** Renders a loop over the items of a value. */
  #each(node: TemplateNode, source: TemplateValue, scope: TemplateScope, out: TextBuilder, depth: number): Ended {
    const chosen = node.iterable.type === 'SelectExpression';
    let items = iterate(source, this.#work);
    if (chosen)
      items = items.filter((item) => {
        const own = new TemplateScope(scope);
        this.#assign(node.loopvar, item, own);
        return truthy(this.#value(node.iterable.test, own));
      });
    // Jinja treats a loop as empty unless an iteration runs to its end.
    let empty = true;
    const again = (value: TemplateValue): TemplateValue => {
      const made = new TextBuilder(this.#work);
      this.#each(node, value, scope, made, depth + 1);
      return made.done();
    };
    const recursive = node.body[0]?.type === 'Comment' && node.body[0].value === RECURSIVE,
      state = new LoopState(items, this.#work, depth, recursive ? again : undefined);
    for (const item of items) {
      const own = new TemplateScope(scope);
      this.#work.step();
      own.set('loop', state.next());
      this.#assign(node.loopvar, item, own);
      const ended = this.#block(node.body, own, out);
      if (ended === 'break') break;
      if (ended === undefined) empty = false;
    }
    return empty ? this.#block(node.defaultBlock, new TemplateScope(scope), out) : undefined;
  }

  #assign(target: TemplateNode, value: TemplateValue, scope: TemplateScope): void {
    if (target.type === 'Identifier') scope.set(target.value, value);
    else if (target.type === 'TupleLiteral') {
      const values = unpack(value, target.value.length, this.#work);
      (target.value as readonly TemplateNode[]).forEach((one, i) =>
        this.#assign(one, values[i] as TemplateValue, scope),
      );
    } else if (target.type === 'MemberExpression') {
      const object = this.#value(target.object, scope);
      const name = String(target.property.value);
      if (!(object instanceof Namespace)) throw new Error('cannot assign attribute on non-namespace object');
      if (name.startsWith('_')) throw new Error(`a namespace takes no field '${name.slice(0, 60)}'`);
      object.fields.set(name, value);
    } else throw new Error(`cannot assign to ${target.type}`);
  }

  #value(node: TemplateNode, scope: TemplateScope): TemplateValue {
    this.#work.step();
    const value = (one: TemplateNode): TemplateValue => this.#value(one, scope);
    switch (node.type) {
      case 'Identifier':
        return scope.get(node.value);
      case 'StringLiteral':
        return new TemplateText(node.value);
      case 'IntegerLiteral':
        return node.value;
      case 'FloatLiteral':
        return new Float(node.value);
      case 'ArrayLiteral':
        return node.value.map(value);
      case 'TupleLiteral':
        return new Tuple(node.value.map(value));
      case 'ObjectLiteral': {
        const dict = new Dict();
        for (const [key, one] of node.value) dict.set(value(key), value(one));
        return dict;
      }
      case 'MemberExpression':
        return this.#member(node, scope);
      case 'CallExpression': {
        const called = value(node.callee);
        const [args, keywords] = this.#arguments(node.args, scope);
        return this.#call(called, args, keywords);
      }
      case 'FilterExpression':
        return this.#filter(node.filter, value(node.operand), scope);
      case 'UnaryExpression':
        if (node.operator.value === 'not') return !truthy(value(node.argument));
        return sign(node.operator.value, value(node.argument));
      case 'BinaryExpression':
        return this.#binary(node, scope);
      case 'SelectExpression':
        if (truthy(value(node.test))) return value(node.lhs);
        return new UndefinedValue('the inline if-expression evaluated to false and no else section was defined.');
      case 'Ternary':
        return value(truthy(value(node.condition)) ? node.trueExpr : node.falseExpr);
    }
    throw new Error(`a ${node.type} where a value is expected`);
  }

  #binary(node: TemplateNode, scope: TemplateScope): TemplateValue {
    const operator = node.operator.value as string;
    const left = (): TemplateValue => this.#value(node.left, scope);
    if (operator === 'and' || operator === 'or') {
      const first = left();
      return truthy(first) === (operator === 'and') ? this.#value(node.right, scope) : first;
    }
    if (!COMPARES.includes(operator)) return operate(operator, left(), this.#value(node.right, scope), this.#work);
    // `a < b < c` is `a < b and b < c`.
    const chain: TemplateNode[] = [node];
    for (let first = node.left as TemplateNode; isComparison(first); first = first.left) chain.unshift(first);
    let before = this.#value((chain[0] as TemplateNode).left, scope);
    for (const one of chain) {
      const after = this.#value(one.right, scope);
      if (comparison(one.operator.value, before, after, this.#work) !== true) return false;
      before = after;
    }
    return true;
  }

  #member(node: TemplateNode, scope: TemplateScope): TemplateValue {
    const object = this.#value(node.object, scope);
    const { property } = node;
    if (!node.computed)
      return itemOf(
        object,
        property.type === 'Identifier' ? new TemplateText(property.value) : property.value,
        true,
        this.#work,
      );
    if (property.type !== 'SliceExpression') return itemOf(object, this.#value(property, scope), false, this.#work);
    const bound = (one: TemplateNode | undefined): number | null => {
      const value = one === undefined ? null : this.#value(one, scope);
      return value === null ? null : whole(value);
    };
    return slice(object, bound(property.start), bound(property.stop), bound(property.step) ?? 1, this.#work);
  }

  #arguments(nodes: readonly TemplateNode[], scope: TemplateScope): [TemplateValue[], Map<string, TemplateValue>] {
    const args: TemplateValue[] = [];
    const keywords = new Map<string, TemplateValue>();
    const name = (key: string, value: TemplateValue): void => {
      if (keywords.has(key)) throw new Error(`got multiple values for keyword argument '${key}'`);
      keywords.set(key, value);
    };
    for (const node of nodes)
      if (node.type === 'SpreadExpression') args.push(...iterate(this.#value(node.argument, scope), this.#work));
      else if (node.type === 'KeywordArgumentExpression') name(node.key.value, this.#value(node.value, scope));
      else if (node.type === 'KeywordSpreadExpression') {
        const dict = this.#value(node.argument, scope);
        if (!(dict instanceof Dict)) throw new Error(`argument after ** must be a mapping, not ${typeName(dict)}`);
        for (const [key, value] of dict.entries()) name(toText(key, this.#work).text, value);
      } else args.push(this.#value(node, scope));
    return [args, keywords];
  }

  #call(called: TemplateValue, args: readonly TemplateValue[], keywords: Keywords): TemplateValue {
    if (called instanceof Callable) return called.call(args, keywords);
    throw new Error(called instanceof UndefinedValue ? called.what : `'${typeName(called)}' object is not callable`);
  }

  #filter(node: TemplateNode, operand: TemplateValue, scope: TemplateScope): TemplateValue {
    const called = node.type === 'CallExpression';
    const name = String(called ? node.callee.value : node.value);
    if (name === GROUP) return operand;
    if (name === TUPLE) return new Tuple(iterate(operand, this.#work));
    const [args, keywords] = called ? this.#arguments(node.args, scope) : [[], NO_KEYWORDS];
    if (!name.startsWith(TEST)) return filter(name, operand, args, keywords, this.#work);
    const not = name.startsWith(NOT, TEST.length);
    return test(name.slice(TEST.length + (not ? NOT.length : 0)), operand, args, this.#work) !== not;
  }

  /** Makes a macro, or the body of a call, that closes over the names known where it is defined. */
  #macro(node: TemplateNode, name: string, parameters: readonly TemplateNode[], defined: TemplateScope): Callable {
    const uses = this.#specials(node);
    const fail = (what: string): never => {
      throw new Error(`macro '${name}' ${what}`);
    };
    return new Callable(name, (args, keywords) => {
      const scope = new TemplateScope(defined);
      const rest = new Map(keywords);
      parameters.forEach((parameter, i) => {
        const own = parameter.type === 'Identifier' ? parameter.value : parameter.key.value;
        if (i < args.length && rest.has(own)) fail(`got multiple values for argument '${own}'`);
        const given = i < args.length ? args[i] : rest.get(own);
        rest.delete(own);
        if (given !== undefined) scope.set(own, given);
        else if (parameter.type === 'Identifier')
          scope.set(own, new UndefinedValue(`parameter '${own}' was not provided`));
        else scope.set(own, this.#value(parameter.value, scope));
      });
      if (uses.has('caller')) {
        scope.set('caller', rest.get('caller') ?? new UndefinedValue('No caller defined'));
        rest.delete('caller');
      }
      if (uses.has('varargs')) scope.set('varargs', new Tuple(args.slice(parameters.length)));
      else if (args.length > parameters.length) fail(`takes not more than ${parameters.length} argument(s)`);
      if (uses.has('kwargs')) {
        const dict = new Dict();
        for (const [key, value] of rest) dict.set(new TemplateText(key), value);
        scope.set('kwargs', dict);
      } else if (rest.size > 0) fail(`takes no keyword argument '${[...rest.keys()][0]}'`);
      return this.#text(node.body, scope);
    });
  }

  /** Returns which of a macro's implicit names its body uses. */
  #specials(node: TemplateNode): ReadonlySet<string> {
    const known = this.#uses.get(node);
    if (known !== undefined) return known;
    const found = new Set<string>();
    const visit = (part: unknown): void => {
      if (typeof part !== 'object' || part === null) return;
      const { type, value } = part as TemplateNode;
      if (type === 'Identifier' && ['caller', 'varargs', 'kwargs'].includes(value)) found.add(value);
      for (const one of part instanceof Map ? [...part].flat() : Object.values(part)) visit(one);
    };
    visit(node.body);
    this.#uses.set(node, found);
    return found;
  }
}

const isComparison = (node: TemplateNode): boolean =>
  node.type === 'BinaryExpression' && COMPARES.includes(node.operator.value);
