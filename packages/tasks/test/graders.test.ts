import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { grade, graderNames } from '../src/index.ts';
import type { GraderName } from '../src/index.ts';

const score = (grader: GraderName, answer: string, ...answers: string[]): number =>
  grade(answer, { grader, answers }).score;

describe('graders', () => {
  it('keep what a line break parts apart', () => {
    expect(score('all', '123\n4567', '1234567')).toBe(0);
    expect(score('all', 'The numbers are 7 and 8.', '7', '9')).toBe(0.5);
  });
  it('find an answer in whole words and numbers, in any script', () => {
    for (const [answer, truth] of [
      ['Maybe A', 'B'],
      ['I know', 'no'],
      ['15', '5'],
      ['0.5 of it', '5'],
      ['1,500', '500'],
      ['500,000', '500'],
      ['na\u00efvet\u00e9', 'na\u00efv'],
      ['', 'a'],
    ] as const)
      expect([score('words', answer, truth), score('any', answer, truth)], answer).toEqual([0, answer === '' ? 0 : 1]);
    for (const [answer, truth] of [
      ['It is (b).', 'B'],
      ['no', ' No'],
      ['It is 5.', '5'],
      ['know, no', 'no'],
      ['首都是北京。', '北京'],
      ['서울입니다', '서울'],
      ['C++, then', 'C++'],
      ['5,6', '5'],
      ['about -5', '-5'],
    ] as const)
      expect(score('words', answer, truth), answer).toBe(1);
    fc.assert(
      fc.property(fc.stringMatching(/^[a-z0-9]{1,6}$/), fc.stringMatching(/^[a-z0-9]{1,3}$/), (truth, more) => {
        expect(score('words', `So: ${truth}.`, truth)).toBe(1);
        expect(score('words', `${truth}${more}`, truth)).toBe(0);
        expect(score('words', `${more}${truth}`, truth)).toBe(0);
      }),
    );
  });
  it('take no problem without an answer', () => {
    expect(() => grade('a', { grader: 'all', answers: [] })).toThrow('expected at least one answer for all, got none');
  });
  it('read the number of GSM8K', () => {
    expect(score('number', 'so 3 + 4 = 7.\n#### 1,234', 'The sum.\n#### 1234')).toBe(1);
    expect(score('number', 'She makes $18.00 every day.', '#### 18')).toBe(1);
    expect(score('number', 'first 18, then 19', '#### 18')).toBe(0);
    expect(score('number', 'it is -3', '#### -3')).toBe(1);
    expect(score('number', 'The answer is 42 ####', '#### 42')).toBe(1);
    expect(grade('no idea', { grader: 'number', answers: ['#### 18'] })).toEqual({ score: 0, parsed: false });
  });
  it('read what stands after the last #, where that is the last line', () => {
    expect(score('final', 'a=b3+c4=a7#x1y2a7\n', 'x1y2a7')).toBe(1);
    expect(score('final', '#x1y2a7;b=a7+c4=b1# x1a7b1', 'x1y2a7')).toBe(0);
    for (const none of ['a=b3+c4=a7', 'a=b3# ', '#x1y2a7\na=', ''])
      expect(grade(none, { grader: 'final', answers: ['x1y2a7'] })).toEqual({ score: 0, parsed: false });
  });
  it('read the last box with its braces', () => {
    expect(score('boxed', 'first \\boxed{1}, then \\boxed{\\dfrac{1}{2}}', '\\frac{1}{2}')).toBe(1);
    expect(score('boxed', '\\boxed{\\frac12}', '0.5')).toBe(1);
    expect(score('boxed', '\\boxed{10,000}', '10000')).toBe(1);
    expect(score('boxed', '\\boxed{\\left( 3, \\frac{\\pi}{2} \\right)}', '\\left(3,\\frac{\\pi}{2}\\right)')).toBe(1);
    expect(score('boxed', '\\boxed{\\text{Evelyn}}', '\\text{Evelyn}')).toBe(1);
    expect(score('boxed', '\\boxed{\\text{Evelyn}}', '\\text{Angela}')).toBe(0);
    expect(score('boxed', '\\boxed{x+1}', 'x-1')).toBe(0);
    expect(score('boxed', '\\boxed{5}. So \\boxed{', '5')).toBe(1);
    expect(grade('the answer is 7, \\boxed{7', { grader: 'boxed', answers: ['7'] })).toEqual({
      score: 0,
      parsed: false,
    });
  });
  it('give a share for any answer, and 1 to the truth', () =>
    fc.assert(
      fc.property(fc.string({ maxLength: 40 }), fc.stringMatching(/^[b-z]{3,9}$/), (answer, truth) => {
        for (const grader of graderNames) {
          const given = grade(answer, { grader, answers: [truth], classes: [truth] });
          expect(given.score).toBeGreaterThanOrEqual(0);
          expect(given.score).toBeLessThanOrEqual(1);
        }
        for (const grader of [
          ...['exact', 'all', 'any', 'words', 'f1', 'rougeL'],
          ...['lineF1', 'lineRougeL', 'classification', 'code'],
        ] as const)
          expect(grade(truth, { grader, answers: [truth], classes: [truth] }).score, grader).toBeCloseTo(1, 6);
      }),
    ));
});
