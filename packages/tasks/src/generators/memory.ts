import { fit } from '../fit.ts';
import type { NewProblem, Material } from '../material.ts';
import { between, distinct } from '../values.ts';
import { depthOf, hide, PLACES } from './credentials.ts';
import { paraphrasedFact } from './paraphrase.ts';

/** Returns a function that gives the i-th of a list, which grows as it is asked for. */
function growing<T>(make: () => T): (i: number) => T {
  const made: T[] = [];
  return (i) => {
    while (made.length <= i) made.push(make());
    return made[i];
  };
}

const ORDINALS = ['first', 'second', 'third', 'fourth'] as const;

/**
 * A conversation in which one request is made four times and answered otherwise each time, among the same request for
 * other places; asks for one of the four answers by its order.
 */
export function repeats({ encode, tokens, draw, trial }: Material): NewProblem {
  const [asked, ...others] = draw.sample(PLACES, PLACES.length),
    wanted = trial % ORDINALS.length,
    maxNewTokens = 12,
    shares = ORDINALS.map(() => draw.next()).sort((a, b) => a - b),
    own = distinct(ORDINALS.length, () => String(between(draw, 1000, 9999)));
  const turn = (place: string, value: string): string => `User: Give me a number for ${place}.\nAssistant: ${value}\n`;
  const other = growing(() => {
    let value: string;
    do value = String(between(draw, 1000, 9999));
    while (own.includes(value));
    return turn(draw.pick(others), value);
  });
  const { context, question } = fit('ordered', encode, { tokens, maxNewTokens }, (size) => {
    const at = shares.map((share) => Math.floor(share * (size + 1))),
      turns = Array.from({ length: size + 1 }, (_, i) => [
        ...at.flatMap((place, k) => (place === i ? turn(asked, own[k]) : [])),
        ...(i < size ? [other(i)] : []),
      ]);
    return {
      context: turns.flat().join(''),
      question: `User: What was the ${ORDINALS[wanted]} number that you gave me for ${asked}?\nAssistant:`,
    };
  });
  return { context, question, answers: [own[wanted]], grader: 'number', maxNewTokens, stop: ['\n'] };
}

const NAMES = ['Anna', 'Boris', 'Clara', 'David', 'Elena', 'Frank', 'Greta', 'Hugo'];
/** What an answer says where the text does not say it. */
const UNKNOWN = 'unknown';

/**
 * Facts that change: rooms of three people, each said three times in a text, and the last one counts. Every fourth
 * problem asks for somebody whose room was never said, and `unknown` is right.
 */
export function updates(material: Material): NewProblem {
  const { draw, trial } = material,
    abstains = trial % 4 === 3,
    [stranger, ...people] = draw.sample(NAMES, 4),
    rooms = distinct(9, () => String(between(draw, 100, 999))),
    depths = rooms.map(() => draw.next()).sort((a, b) => a - b),
    said = rooms.map((room, i) => ({
      text: i < 3 ? `${people[i % 3]}'s room is ${room}.` : `${people[i % 3]} moved: the room is now ${room}.`,
      depth: depths[i],
    })),
    asked = abstains ? stranger : people[0];
  return hide('updates', material, said, {
    question: `\nQuestion: Which room does ${asked} have now? Say "${UNKNOWN}" if the text does not say it.\nAnswer:`,
    answers: [abstains ? UNKNOWN : rooms[6]],
    grader: abstains ? 'any' : 'number',
    maxNewTokens: 12,
    stop: ['\n'],
  });
}

const THINGS = ['apples', 'books', 'coins', 'eggs', 'keys', 'pens', 'stamps', 'tickets'];
/** Sums of two steps with their solutions, as many as there is room for, and another one to solve. */
export function arithmetic({ encode, tokens, draw }: Material): NewProblem {
  const maxNewTokens = 32;
  const example = growing(() => {
    const [name, thing] = [draw.pick(NAMES), draw.pick(THINGS)],
      [a, b, c] = [between(draw, 10, 40), between(draw, 2, 9), between(draw, 2, 9)],
      sum = a + b - c;
    return {
      asks: `Q: ${name} has ${a} ${thing}, buys ${b} more and gives ${c} away. How many ${thing} are left?\nA:`,
      solves: ` ${a} + ${b} = ${a + b}. ${a + b} - ${c} = ${sum}. The answer is ${sum}\n\n`,
      sum,
    };
  });
  const { asks, sum } = example(0),
    { context, question } = fit('arithmetic', encode, { tokens, maxNewTokens }, (size) => ({
      context: Array.from({ length: size }, (_, i) => example(i + 1))
        .map((one) => one.asks + one.solves)
        .join(''),
      question: asks,
    }));
  return { context, question, answers: [String(sum)], grader: 'number', maxNewTokens, stop: ['\n'] };
}

/** A price in prose, asked for in words of which the text has none. */
export function paraphrase(material: Material): NewProblem {
  const { statement, value, question } = paraphrasedFact(material.draw, material.sentences.join(' '));
  return hide('paraphrased', material, [{ text: statement, depth: depthOf(material.trial) }], {
    question,
    answers: [value],
    grader: 'number',
    maxNewTokens: 12,
    stop: ['\n'],
  });
}
