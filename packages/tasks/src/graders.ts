import { boxedText } from './grading/math/boxed.ts';
import { sameMath } from './grading/math/same.ts';
import { lastNumber } from './grading/last-number.ts';
import { classification, codeSimilarity, countShare, firstLine, qaF1, retrievalScore } from './grading/longbench.ts';
import { rougeL } from './grading/rouge.ts';
import { wordsAt } from './grading/words-at.ts';

/** Score of an answer. */
export interface Grade {
  /** From 0 (wrong) to 1 (right). */
  readonly score: number;
  /** False if the answer contains nothing of the requested form. */
  readonly parsed: boolean;
}

interface Asked {
  readonly answers: readonly string[];
  /** Every class of a classification task. */
  readonly classes?: readonly string[];
}
type Grader = (answer: string, asked: Asked) => Grade;

const best = (answers: readonly string[], score: (truth: string) => number): number =>
  Math.max(0, ...answers.map(score));
const said = (answer: string): boolean => answer.trim() !== '';
const byBest =
  (score: (answer: string, truth: string, asked: Asked) => number): Grader =>
  (answer, asked) => ({ score: best(asked.answers, (truth) => score(answer, truth, asked)), parsed: said(answer) });
const holds = (answer: string, truth: string): number =>
  postprocess(answer).toLowerCase().includes(truth.toLowerCase()) ? 1 : 0;

/** RULER's post-processing: control characters become line breaks, surrounding white space is trimmed. */
export const postprocess = (answer: string): string =>
  answer
    .trim()
    .replace(/[\x00-\x1f]/g, '\n')
    .trim();

const graders = {
  /** The trimmed answer equals one of the answers. */
  exact: byBest((answer, truth) => (answer.trim() === truth.trim() ? 1 : 0)),
  /** RULER's string_match_all: the share of the answers that it contains, ignoring case. */
  all: (answer, { answers }) => {
    if (answers.length === 0) throw new RangeError('grade: expected at least one answer for all, got none');
    return {
      score: answers.reduce((sum, truth) => sum + holds(answer, truth), 0) / answers.length,
      parsed: said(answer),
    };
  },
  /** RULER's string_match_part: whether it contains one of the answers. */
  any: byBest(holds),
  /** Whether it says one of the answers in whole words, ignoring case: for problems that name no grader. */
  words: byBest((answer, truth) => (wordsAt(answer.toLowerCase(), truth.trim().toLowerCase()).length > 0 ? 1 : 0)),
  /** GSM8K: the number after "####", else the last number. */
  number: (answer, { answers }) => {
    const number = lastNumber(answer);
    return {
      score: number === undefined ? 0 : best(answers, (truth) => (lastNumber(truth) === number ? 1 : 0)),
      parsed: number !== undefined,
    };
  },
  /** The text after the last "#", on the answer's last line, equals one of the answers. */
  final: (answer, { answers }) => {
    const stated = /#([^#\n]*)$/.exec(answer.trimEnd())?.[1].trim();
    return { score: stated !== undefined && answers.includes(stated) ? 1 : 0, parsed: !!stated };
  },
  /** MATH: the contents of the last \boxed{…}, compared by value. */
  boxed: (answer, { answers }) => {
    const inside = boxedText(answer);
    return {
      score: inside === undefined ? 0 : best(answers, (truth) => (sameMath(inside, truth) ? 1 : 0)),
      parsed: inside !== undefined,
    };
  },
  /** LongBench and SQuAD: F1 of the words. */
  f1: byBest(qaF1),
  rougeL: byBest(rougeL),
  /** The same of the answer's first line, as LongBench grades data sets whose prompts are examples. */
  lineF1: byBest((answer, truth) => qaF1(firstLine(answer), truth)),
  lineRougeL: byBest((answer, truth) => rougeL(firstLine(answer), truth)),
  classification: byBest((answer, truth, { classes = [] }) => classification(firstLine(answer), truth, classes)),
  retrieval: byBest(retrievalScore),
  count: byBest(countShare),
  code: byBest(codeSimilarity),
  /**
   * For a text that is scored, not generated: the answer is the mean negative log-likelihood per token in nats; the
   * score is one over the perplexity.
   */
  perplexity: (answer) => {
    const nats = answer.trim() === '' ? NaN : Number(answer);
    return nats >= 0 ? { score: Math.exp(-nats), parsed: true } : { score: 0, parsed: false };
  },
} satisfies Readonly<Record<string, Grader>>;

/** Name of a grader. */
export type GraderName = keyof typeof graders;
/** Names of all graders. */
export const graderNames = Object.keys(graders) as readonly GraderName[];

/** Grades the answer to a problem. */
export const grade = (answer: string, { grader, answers, classes }: Asked & { readonly grader: GraderName }): Grade =>
  graders[grader](answer, { answers, ...(classes && { classes }) });
