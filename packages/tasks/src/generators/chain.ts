import { fit } from '../fit.ts';
import type { NewProblem, Material } from '../material.ts';

const LETTERS = 'abcdefghijklmnopqrstuvwxyz';
const GIVEN = 4;

/**
 * Generates a problem solved step by step, with as many steps as `tokens` allows, at most 22: sums and differences of
 * digits mod 10, stated in random order. Every step reads the variable before it and any earlier one, so
 * each step is needed.
 */
export function chain({ encode, tokens, draw }: Material): NewProblem {
  const most = LETTERS.length - GIVEN,
    start = draw.below(LETTERS.length),
    name = (i: number): string => LETTERS[(start + i) % LETTERS.length],
    given = Array.from({ length: GIVEN }, () => draw.below(10)),
    reads = Array.from({ length: most }, (_, i) => ({
      other: draw.below(i + GIVEN - 1),
      first: draw.next() < 0.5,
      sign: draw.pick(['+', '-']),
    })),
    order = draw.sample([...Array(LETTERS.length).keys()], LETTERS.length);

  const build = (steps: number): { context: string; question: string; made: NewProblem } => {
    const count = GIVEN + steps,
      values = [...given],
      lines = given.map((value, i) => `${name(i)}${value};`),
      worked: string[] = [];
    for (const [i, { other, first, sign }] of reads.slice(0, steps).entries()) {
      const at = i + GIVEN,
        [x, y] = first ? [at - 1, other] : [other, at - 1],
        header = `${name(at).toUpperCase()}=`;
      values.push((values[x] + (sign === '+' ? values[y] : 10 - values[y])) % 10);
      lines.push(`${header}${name(x)}${sign}${name(y)}${at === count - 1 ? '?' : ';'}`);
      worked.push(`${header}${name(x)}${values[x]}${sign}${name(y)}${values[y]}=${name(at)}${values[at]}`);
    }
    const said = order.filter((i) => i < count).map((i) => lines[i]),
      context = `${said.join('')}\n`,
      question = worked[0].slice(0, 2),
      answer = [count - 3, count - 2, count - 1].map((i) => `${name(i)}${values[i]}`).join(''),
      solution = `${worked.join(';').slice(2)}#${answer}\n`,
      maxNewTokens = encode(solution).ids.length;
    return {
      context,
      question: question + solution, // measured together with the answer, which grows with it
      made: { context, question, answers: [answer], grader: 'final', maxNewTokens, stop: ['\n'] },
    };
  };
  return fit('chain', encode, { tokens, maxNewTokens: 0, least: 2, most }, build).made;
}
