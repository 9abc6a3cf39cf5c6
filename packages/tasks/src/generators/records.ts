import { fit } from '../fit.ts';
import type { NewProblem, Material } from '../material.ts';
import { between, growing, uuid, wordsOf } from '../values.ts';

/** LongEval: numbered lines, one of which is asked for by its name. */
export function lines({ encode, sentences, tokens, draw }: Material): NewProblem {
  const words = wordsOf('longeval', sentences, 2),
    names = growing(() => `${draw.pick(words)}-${draw.pick(words)}`),
    numbers = growing(() => String(between(draw, 1, 50_000))),
    share = draw.next(),
    maxNewTokens = 24;
  const made = fit('longeval', encode, { tokens, maxNewTokens }, (size) => {
    const keys = names(size),
      values = numbers(size),
      at = Math.floor(share * size);
    return {
      context: `Below is a record of lines I want you to remember. Each line begins with 'line <line index>' and contains a '<REGISTER_CONTENT>' at the end of the line as a numerical value. For each line index, memorize its corresponding <REGISTER_CONTENT>. At the end of the record, I will ask you to retrieve the corresponding <REGISTER_CONTENT> of a certain line index. Now the record start:\n\n${keys.map((key, i) => `line ${key}: REGISTER_CONTENT is <${values[i]}>\n`).join('')}`,
      question: `\nNow the record is over. Tell me what is the <REGISTER_CONTENT> in line ${keys[at]}? I need the number.`,
      value: values[at],
    };
  });
  return { context: made.context, question: made.question, answers: [made.value], grader: 'number', maxNewTokens };
}

/** Lost in the middle: UUID pairs as JSON, one of which is asked for by its key. */
export function keyValue({ encode, tokens, draw }: Material): NewProblem {
  const ids = growing(() => uuid(draw)),
    share = draw.next(),
    maxNewTokens = 64;
  const made = fit('keyvalue', encode, { tokens, maxNewTokens }, (size) => {
    const all = ids(2 * size),
      at = 2 * Math.floor(share * size),
      pairs = Array.from({ length: size }, (_, i) => ` "${all[2 * i]}": "${all[2 * i + 1]}"`);
    return {
      context: `Extract the value corresponding to the specified key in the JSON object below.\n\nJSON data:\n{${pairs.join(',\n').slice(1)}}\n`,
      question: `\nKey: "${all[at]}"\nCorresponding value:`,
      value: all[at + 1],
    };
  });
  return { context: made.context, question: made.question, answers: [made.value], grader: 'any', maxNewTokens };
}
