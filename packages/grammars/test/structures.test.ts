import type { AnswerStructure } from '@kv/checkpoints';
import { KvError } from '@kv/core';
import fc from 'fast-check';
import { expect, test } from 'vitest';
import { ebnf, type Node, type Rules } from '../src/schema/node.ts';
import { readEbnf } from '../src/schema/read-ebnf.ts';
import { expectWork } from '../src/schema/limits.ts';
import { withGrammars } from '../src/structure-text.ts';

const refused = (structure: AnswerStructure): string => {
  try {
    withGrammars(structure);
  } catch (error) {
    if (KvError.is(error)) return error.message;
    throw error;
  }
  return 'taken';
};
const grammar = (text: string): AnswerStructure => ({ type: 'grammar', grammar: text });
const optionals = (count: number): string =>
  Array.from({ length: count }, (_, i) => `r${i} ::= ${i === 0 ? '""' : `("p${i}=" [^"]* ", ")? r${i - 1}`}`).join(
    '\n',
  );

test.each<readonly [name: string, structure: AnswerStructure, outcome: string]>([
  ['a few optional parameters', grammar(`root ::= r20\n${optionals(21)}`), 'taken'],
  ['hundreds of optional parameters', grammar(`root ::= r400\n${optionals(401)}`), 'too long to compile'],
  ['counts within counts', { type: 'regex', pattern: '(.{1,200}){1,200}' }, 'too long to compile'],
  ['a usual expression', { type: 'regex', pattern: '^[A-Z]{2}\\d{3,5}(-[a-z]+)?$' }, 'taken'],
  ['a long counted text', grammar('root ::= [^<]{0,400}'), 'too long to compile'],
  ['a counted text', grammar('root ::= [^<]{0,40}'), 'taken'],
  [
    'many counted texts',
    { type: 'sequence', elements: Array.from({ length: 9 }, () => grammar('root ::= [^>]{0,40}')) },
    'too long to compile',
  ],
  [
    'many counted texts that share their rules',
    { type: 'sequence', elements: Array.from({ length: 9 }, () => grammar('root ::= [^<]{3,40}')) },
    'taken',
  ],
  ['what is no grammar, which xgrammar refuses', grammar('root ::= ("a" | nothing'), 'taken'],
  ['parentheses within each other', grammar(`root ::= ${'('.repeat(100_000)}`), 'taken'],
])('%s: %#', (_, structure, outcome) => expect(refused(structure)).toContain(outcome));

const { node } = fc.letrec<{ node: Node }>((tie) => ({
  node: fc.oneof(
    { depthSize: 'small', withCrossShrink: true },
    fc.string({ minLength: 1, maxLength: 4 }).map((text): Node => ({ is: 'text', text })),
    fc.boolean().map((beyond): Node => ({ is: 'chars', ranges: [[97, 122]], beyond })),
    fc.constant<Node>({ is: 'rule', name: 'one' }),
    fc.array(tie('node'), { minLength: 2, maxLength: 3 }).map((parts): Node => ({ is: 'sequence', parts })),
    fc.array(tie('node'), { minLength: 2, maxLength: 3 }).map((options): Node => ({ is: 'choice', options })),
    fc
      .tuple(tie('node'), fc.nat(2), fc.constantFrom(1, 3, Infinity))
      .map(([part, least, more]): Node => ({ is: 'repeat', part, least, most: least + more })),
  ),
}));

test('a grammar that is written is read back as one of as much work', () => {
  fc.assert(
    fc.property(node, node, (root, one) => {
      const rules: Rules = new Map([
          ['root', root],
          ['one', one],
        ]),
        work = (of: Rules): number | string => {
          try {
            return expectWork(of);
          } catch {
            return 'too much';
          }
        };
      expect(work(readEbnf(ebnf(rules)) as Rules)).toBe(work(rules));
    }),
  );
});
