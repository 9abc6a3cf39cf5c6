import type { AnswerStructure } from '@kv/checkpoints';
import { KvError } from '@kv/core';
import { JsonText } from './schema/json-text.ts';
import { checkSize, expectWork } from './schema/limits.ts';
import {
  chars,
  choice,
  ebnf,
  empty,
  never,
  others,
  repeat,
  sequence,
  text,
  type Node,
  type Range,
  type Rules,
} from './schema/node.ts';
import { expressionNode } from './schema/pattern.ts';
import { readEbnf } from './schema/read-ebnf.ts';
import { rulesOf, SchemaReader } from './schema/schema.ts';

/**
 * Writes the schemas of a structure as grammars, since xgrammar leaves out keywords that it does not know, and each part
 * that a grammar can be written for as one: rules that its schemas share are compiled once.
 * @throws KvError for a schema that cannot be followed
 */
export function withGrammars(structure: AnswerStructure): AnswerStructure {
  let work = 0;
  const counted = (rules: Rules): Rules => {
    work = expectWork(rules, work);
    return rules;
  };
  return written(structure, counted);
}

/** @param counted counts the work of rules, with all that came before */
function written(structure: AnswerStructure, counted: (rules: Rules) => Rules): AnswerStructure {
  const within = (part: AnswerStructure): AnswerStructure => written(part, counted);
  if (plain(structure)) return structure.type === 'const_string' ? structure : grammarOf(structure, counted);
  switch (structure.type) {
    case 'qwen_xml_parameter':
      throw new KvError('structure', 'qwen_xml_parameter cannot be followed: write its parameters as tags');
    case 'sequence':
      return { ...structure, elements: structure.elements.map(within) };
    case 'or': {
      const own = structure.elements.filter(plain),
        rest = structure.elements.filter((one) => !plain(one)).map(within);
      return {
        type: 'or',
        elements: own.length === 0 ? rest : [grammarOf({ type: 'or', elements: own }, counted), ...rest],
      };
    }
    case 'tag':
      return { ...structure, content: within(structure.content) };
    case 'triggered_tags':
    case 'tags_with_separator':
      return { ...structure, tags: structure.tags.map((tag) => ({ ...tag, content: within(tag.content) })) };
    case 'grammar': {
      const rules = readEbnf(structure.grammar);
      if (rules) counted(rules);
      return structure;
    }
    case 'regex': {
      const node = expressionNode(structure.pattern);
      if (node) counted(new Map([['root', node]]));
      return structure;
    }
    default:
      return structure;
  }
}

/** Whether a part is one that `nodeOf` writes. */
function plain(structure: AnswerStructure): boolean {
  switch (structure.type) {
    case 'const_string':
    case 'json_schema':
      return true;
    case 'grammar':
      return structure.grammar === NOTHING || COUNTED_TEXT.test(structure.grammar);
    case 'regex':
      return COUNTED.test(structure.pattern);
    case 'sequence':
    case 'or':
      return structure.elements.length > 0 && structure.elements.every(plain);
    case 'tag':
      return (
        structure.begin !== '' &&
        (structure.content.type === 'any_text' ? structure.end !== '' : plain(structure.content))
      );
    default:
      return false;
  }
}

/** A count of letters or digits, as an id of a call has. */
const COUNTED = /^\[((?:[a-z]-[a-z]|\d-\d)+)\]\{(\d)\}$/i;
/** A count of characters, as strings have between tags. */
const COUNTED_TEXT = /^root ::= \[\^<\]\{(\d{1,4}),(\d{1,4})\}$/;
/** The grammar of no text. */
const NOTHING = 'root ::= ""';

function grammarOf(structure: AnswerStructure, counted: (rules: Rules) => Rules): AnswerStructure {
  const json = new JsonText();
  let schemas = 0;
  const nodeOf = (part: AnswerStructure): Node => {
    switch (part.type) {
      case 'const_string':
        return text(part.value);
      case 'regex': {
        const [, spans = '', count] = COUNTED.exec(part.pattern) as RegExpExecArray,
          ranges = Array.from(
            spans.matchAll(/(.)-(.)/g),
            ([, from = '', to = '']): Range => [from.charCodeAt(0), to.charCodeAt(0)],
          );
        return repeat(chars(...ranges), Number(count), Number(count));
      }
      case 'grammar': {
        const counts = COUNTED_TEXT.exec(part.grammar);
        return counts ? countedText(json, Number(counts[1]), Number(counts[2])) : empty;
      }
      case 'json_schema': {
        checkSize(part.json_schema);
        const reader = new SchemaReader(part.json_schema, json, schemas++ * APART);
        return sequence(json.space, reader.node(part.json_schema, 'schema'));
      }
      case 'sequence':
        return sequence(...part.elements.map(nodeOf));
      case 'or':
        return choice(...part.elements.map(nodeOf));
      case 'tag':
        return sequence(
          text(part.begin),
          part.content.type === 'any_text' ? upTo(part.end, json) : sequence(nodeOf(part.content), text(part.end)),
        );
      default:
        return empty;
    }
  };
  return { type: 'grammar', grammar: ebnf(counted(rulesOf(json, nodeOf(structure)))) };
}

/** Numbers of rules that one schema may have. */
const APART = 2 ** 20;

/** Text of `least` to `most` characters but `<`. One rule for each number of them: all such texts share them. */
function countedText(json: JsonText, least: number, most: number): Node {
  const one: Node = { is: 'chars', ranges: others([[60, 60]], 127), beyond: true };
  let rest: Node = least > most ? never : empty;
  for (let left = 1; left <= most; left++) {
    const then = rest,
      needed = left > most - least;
    rest = json.named(needed ? `text-${left}-${most - least}` : `text-${left}`, () =>
      needed ? sequence(one, then) : choice(empty, sequence(one, then)),
    );
  }
  return rest;
}

/** Text up to and with the first of a mark: a rule for each part of it that may have come. */
function upTo(mark: string, json: JsonText): Node {
  const letters = [...new Set(mark)],
    other: Node = {
      is: 'chars',
      ranges: others(
        letters.map((char) => [char.charCodeAt(0), char.charCodeAt(0)]),
        127,
      ),
      beyond: true,
    },
    id = Array.from(mark, (char) => char.charCodeAt(0).toString(16)).join('-');
  /** What may come after the first `come` characters of the mark. */
  const state = (come: number): Node =>
    json.named(`up-to-${id}-${come}`, () =>
      choice(
        sequence(other, state(0)),
        ...letters.map((char) => {
          const next = longest(mark, mark.slice(0, come) + char);
          return sequence(chars([char.charCodeAt(0), char.charCodeAt(0)]), next === mark.length ? empty : state(next));
        }),
      ),
    );
  return state(0);
}

/** Returns how much of the mark's beginning a text ends with. */
function longest(mark: string, come: string): number {
  let length = Math.min(mark.length, come.length);
  while (!come.endsWith(mark.slice(0, length))) length--;
  return length;
}
