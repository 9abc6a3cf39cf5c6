import { KvError } from '@kv/core';
import type { Node, Rules } from './node.ts';

/** Most bytes of a schema as JSON, and most brackets within each other. */
const MOST = { bytes: 256 * 1024, depth: 64 } as const;

/** @throws KvError for a schema that is too long or too deep, or leads back into itself, before anything walks it */
export function checkSize(schema: unknown): void {
  let left: number = MOST.bytes;
  const walk = (value: unknown, depth: number): void => {
    left -= typeof value === 'string' ? value.length + 2 : 4;
    if (left < 0) throw new KvError('schema', `expected at most ${MOST.bytes} bytes of JSON, got more`);
    if (typeof value !== 'object' || value === null) return;
    if (depth > MOST.depth)
      throw new KvError('schema', `expected at most ${MOST.depth} levels within each other, got more`);
    for (const [key, inner] of Object.entries(value)) {
      if (!Array.isArray(value)) left -= key.length + 3;
      walk(inner, depth + 1);
    }
  };
  walk(schema, 0);
}

/**
 * Most work of a grammar, in about the microseconds that xgrammar takes to compile it for a vocabulary of 49,152 on one core.
 * It compiles in one go, so work is bounded before it begins.
 */
const MOST_WORK = 2_000_000;

/**
 * Work of a state in which nearly every token may come, or few, and of each thing that a rule may begin with, which is tried
 * for every token.
 */
const WIDE = 15_000,
  NARROW = 100,
  BEGIN = 200;

/**
 * Counts the work of rules.
 * @param before work of others that are compiled with them
 * @throws KvError for what would take too long to compile
 */
export function expectWork(rules: Rules, before = 0): number {
  const firsts = new Map<string, First>(),
    first = (name: string): First => {
      let known = firsts.get(name);
      if (!known) {
        firsts.set(name, { count: 1, empty: false });
        known = firstOf(rules.get(name) as Node, first);
        firsts.set(name, known);
      }
      return known;
    };
  let work = before;
  for (const [name, node] of rules) work += workOf(node, first) + first(name).count * BEGIN;
  if (work > MOST_WORK)
    throw new KvError(
      'schema',
      `would take too long to compile: expected work of at most ${MOST_WORK}, got ${Math.ceil(work)}; what costs most are long maxLength and minLength, counted repetitions in patterns, large enums and many optional properties`,
    );
  return work;
}

/** How many things a text may begin with, and whether it may be empty. */
interface First {
  readonly count: number;
  readonly empty: boolean;
}

function firstOf(node: Node, rule: (name: string) => First): First {
  switch (node.is) {
    case 'text':
      return { count: 1, empty: node.text === '' };
    case 'chars':
      return { count: 1, empty: false };
    case 'sequence': {
      let count = 0;
      for (const part of node.parts) {
        const first = firstOf(part, rule);
        count += first.count;
        if (!first.empty) return { count, empty: false };
      }
      return { count, empty: true };
    }
    case 'choice': {
      const all = node.options.map((option) => firstOf(option, rule)),
        // texts are kept by their beginnings, as in a dictionary
        texts = node.options.filter(({ is }) => is === 'text').length,
        count = all.reduce((sum, { count }) => sum + count, 0) - texts + Math.ceil(texts / 16);
      return { count, empty: all.some(({ empty }) => empty) };
    }
    case 'repeat': {
      const { count, empty } = firstOf(node.part, rule);
      return { count, empty: empty || node.least === 0 };
    }
    case 'rule':
      return rule(node.name);
  }
}

function workOf(node: Node, rule: (name: string) => First): number {
  switch (node.is) {
    case 'text':
      return node.text.length * 3;
    case 'chars':
      return node.beyond ? WIDE : NARROW;
    case 'sequence':
      return node.parts.reduce((sum, part) => sum + workOf(part, rule), 0);
    case 'choice':
      return node.options.reduce((sum, option) => sum + workOf(option, rule), 0);
    case 'repeat': {
      const times = Math.max(1, node.most === Infinity ? node.least + 1 : node.most),
        { count, empty } = firstOf(node.part, rule);
      return (workOf(node.part, rule) + count * NARROW) * times * (empty ? times : 1);
    }
    case 'rule':
      return 1;
  }
}
