import { readFileSync } from 'node:fs';
import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { sameMath } from '../src/grading/math/same.ts';
import { grade } from '../src/index.ts';

const right = (said: string, truth: string): boolean =>
  grade(`so it is $\\boxed{${said}}$`, { grader: 'boxed', answers: [truth] }).score === 1;
/**
 * Output of `tools/math-pairs.py`: two texts, whether sympy considers them equal, and whether MATH's own grader does.
 */
const { review, pairs } = JSON.parse(readFileSync(new URL('./data/math-pairs.json', import.meta.url), 'utf8')) as {
  readonly review: readonly (readonly [string, string])[];
  readonly pairs: readonly (readonly [string, string, boolean, boolean])[];
};

describe('answers of MATH', () => {
  it('that the review names are equal, either way round', () => {
    expect(review).toHaveLength(38);
    expect(review.filter(([a, b]) => !right(a, b) || !right(b, a))).toEqual([]);
  });
  it('are equal where sympy says so, and where MATH does, and nowhere else', () => {
    expect(pairs.length).toBeGreaterThan(400);
    expect(pairs.filter(([a, b, sympy]) => right(a, b) !== sympy || right(b, a) !== sympy)).toEqual([]);
    expect(pairs.filter(([a, b, , own]) => own && !right(a, b))).toEqual([]);
  });
  it.each([
    ['9007199254740993', '9007199254740992'],
    ['(1,234)', '(1234)'],
    ['(1,2)', '(2,1)'],
    ['(1,2)', '[1,2]'],
    ['x+1', 'x-1'],
    ['101_2', '101_3'],
    ['101_2', '101'],
    ['x', 'y'],
    ['\\sqrt{x^2}', 'x'],
    ['0.33', '\\frac13'],
    ['3 4', '12'],
    ['\\{1,2\\}', '\\{1,2,3\\}'],
    ['\\text{east}', '\\text{seat}'],
    ['east', 'seat'],
    ['x<5', 'x>5'],
    ['x<5', 'x\\le5'],
    ['2x+y=1', '2x-y=1'],
    ['\\infty', '-\\infty'],
    ['\\begin{pmatrix}1&2\\end{pmatrix}', '\\begin{pmatrix}1\\\\2\\end{pmatrix}'],
    ['2^{2005}', '2^{2005}+1'],
    ['10^{20}+1', '10^{20}'],
    ['x=1, y=2', 'x=2, y=1'],
    ['p=1', 'q=1'],
    ['y=2x+1', 'y=2x+2'],
    ['f(x)=x+1', 'g(x)=x+1'],
    ['1 1/2', '11/2'],
    ['2 3', '23'],
    ['y=\\ln x', 'z=\\ln x'],
  ])('%s is not %s', (a, b) => expect([right(a, b), right(b, a)]).toEqual([false, false]));
  it.each([
    ['0.\\overline{3}', '\\frac13'],
    ['x=1, x=2', '1,2'],
    ['x = 2 \\text{ or } x = 1', '1, 2'],
    ['2x+3y=5', '3y=5-2x'],
    ['1<x<2', '2>x>1'],
    ['5>x', 'x<5'],
    ['f(x)=x+1', '1+x'],
    ['2x+1=y', 'y=2x+1'],
    ['y=3x-5', '3x-y=5'],
    ['2=x', 'x=2'],
    ['y=-1', 'y+1=0'],
    ['\\theta = 2', '2 = \\theta'],
    ['y=\\ln 2x', 'y = \\ln(2x)'],
    ['\\angle = 5', '\\angle=5.0'],
    ['10 000', '10000'],
    ['\\frac1 2', '\\frac12'],
    ['101_{2}', '101_2'],
    ['5!', '120'],
    ['|{-3}|', '3'],
    ['\\text{(A)}', 'A'],
    ['x \\in (1,2]', '(1, 2]'],
    ['\\frac{x^2-1}{x-1}', 'x+1'],
    ['12 cm', '12'],
    ['e^{i\\pi/3}', '\\frac12+\\frac{\\sqrt3}{2}i'],
    ['\\begin{bmatrix}1\\\\2\\end{bmatrix}', '\\begin{pmatrix} 1 \\\\ 2 \\end{pmatrix}'],
    ['\\mathrm{Evelyn}', 'evelyn'],
    ['\\sqrt{-4}', '2i'],
    ['\\emptyset', '\\{\\}'],
  ])('%s is %s', (a, b) => expect([right(a, b), right(b, a)]).toEqual([true, true]));
  it('are the same equation whichever side is which, and no other', () => {
    const side = fc.record({ a: fc.integer({ min: 1, max: 5 }), b: fc.integer({ min: -5, max: 5 }) }),
      text = ({ a, b }: { a: number; b: number }): string => `${a}x${b < 0 ? b : `+${b}`}`;
    fc.assert(
      fc.property(side, fc.integer({ min: 1, max: 5 }), (one, more) => {
        const truth = `y=${text(one)}`;
        for (const said of [`${text(one)}=y`, `${text(one)}-y=0`, `2y=2(${text(one)})`])
          expect([right(said, truth), right(truth, said)], said).toEqual([true, true]);
        expect(right(`${text({ ...one, b: one.b + more })}=y`, truth)).toBe(false);
        expect(right(text(one), truth)).toBe(true);
      }),
    );
  });
  it('are what the last box holds, with braces or without', () => {
    for (const text of [
      '\\boxed 5',
      '$\\boxed 5$.',
      'then \\boxed 5 is it',
      '\\fbox{5}',
      '\\boxed{3} no, \\fbox{\\boxed{5}}',
      '\\boxed{\\text{is }\\{5\\}}, but \\boxed{ 5 }',
    ])
      expect(grade(text, { grader: 'boxed', answers: ['5'] }), text).toEqual({ score: 1, parsed: true });
    expect(grade('$\\boxed \\frac{5}{2}$', { grader: 'boxed', answers: ['2.5'] }).score).toBe(1);
    for (const text of ['\\boxed{5', '\\boxed', '\\boxedanswer{5}', ''])
      expect(grade(text, { grader: 'boxed', answers: ['5'] }), text).toEqual({ score: 0, parsed: false });
  });
  it('are themselves, and never end badly, whatever is in the box', () => {
    const piece = fc.constantFrom(
        ...'1 2 9 x y i e ( ) [ ] { } , ; + - * / ^ _ ! | . = < > & % $ \\\\ \\frac \\sqrt \\pi \\pm \\cup \\infty \\text \\begin{pmatrix} \\end{pmatrix} \\left \\right \\{ \\} \\log \\sin \\overline ^{ }'.split(
          ' ',
        ),
      ),
      text = fc.oneof(
        fc.string({ maxLength: 60 }),
        fc.array(piece, { maxLength: 40 }).map((some) => some.join('')),
      );
    fc.assert(
      fc.property(text, text, (a, b) => {
        expect(sameMath(a, b)).toBe(sameMath(b, a));
        expect(sameMath(a, a)).toBe(true);
        expect(right(a, b)).toBeTypeOf('boolean');
      }),
      { numRuns: 2000 },
    );
  });
  it.each([
    '9^{9^{9^9}}',
    '(x+y+1)^{200}',
    `${'('.repeat(900)}1${')'.repeat(900)}`,
    '{'.repeat(1900),
    '\\sqrt'.repeat(390),
    `${'1/'.repeat(900)}3`,
    `${'(1+x)'.repeat(300)}`,
    `${'x^'.repeat(900)}2`,
    '1'.repeat(1999),
    `\\sqrt{${'9'.repeat(1500)}}`,
    `\\sqrt[${'9'.repeat(500)}]{2}`,
    `2^{1/${'9'.repeat(500)}}`,
    `${'1,'.repeat(999)}1`,
    `${'9'.repeat(300)}!`,
    '300!'.repeat(300),
    `${' '.repeat(1900)}cm`,
    '\\text{'.repeat(400),
    `\\begin{pmatrix}${'1&'.repeat(500)}\\end{pmatrix}`,
    'x'.repeat(1_000_000),
    ' '.repeat(1_000_000),
    '\\left'.repeat(200_000),
    '\\boxed'.repeat(100_000),
    '-'.repeat(1900),
    '10,\\!'.repeat(50_000),
  ])('that are hostile end soon (%#)', (text) => {
    // neither equals a different value; the test runner's time limit is the check
    expect(right(text, '7')).toBe(false);
    expect(right('7', text)).toBe(false);
  });
});
