/*!
 * Prompts of LongBench (https://github.com/THUDM/LongBench, config/dataset2prompt.json). Copyright (c) 2023 THU-KEG &
 * Zhipu AI. MIT licence: see third-party/LICENSE of @kv/evaluation.
 */
import { KvError } from '@kv/core';
import { didYouMean } from '@kv/core/engine';
import type { GraderName } from '@kv/tasks';

/** How LongBench asks and grades a data set. */
interface LongBenchSet {
  readonly grader: GraderName;
  readonly maxNewTokens: number;
  /** With `{context}` and `{input}`, as published. */
  readonly prompt: string;
}
const set = (grader: GraderName, maxNewTokens: number, prompt: string): LongBenchSet => ({
  grader,
  maxNewTokens,
  prompt,
});

const PASSAGES =
  'Answer the question based on the given passages. Only give me the answer and do not output any other words.\n\nThe following are given passages.\n{context}\n\nAnswer the question based on the given passages. Only give me the answer and do not output any other words.\n\nQuestion: {input}\nAnswer:';

const SETS: Readonly<Record<string, LongBenchSet>> = {
  narrativeqa: set(
    'f1',
    128,
    'You are given a story, which can be either a novel or a movie script, and a question. Answer the question asconcisely as you can, using a single phrase if possible. Do not provide any explanation.\n\nStory: {context}\n\nNow, answer the question based on the story asconcisely as you can, using a single phrase if possible. Do not provide any explanation.\n\nQuestion: {input}\n\nAnswer:',
  ),
  qasper: set(
    'f1',
    128,
    'You are given a scientific article and a question. Answer the question as concisely as you can, using a single phrase or sentence if possible. If the question cannot be answered based on the information in the article, write "unanswerable". If the question is a yes/no question, answer "yes", "no", or "unanswerable". Do not provide any explanation.\n\nArticle: {context}\n\n Answer the question based on the above article as concisely as you can, using a single phrase or sentence if possible. If the question cannot be answered based on the information in the article, write "unanswerable". If the question is a yes/no question, answer "yes", "no", or "unanswerable". Do not provide any explanation.\n\nQuestion: {input}\n\nAnswer:',
  ),
  multifieldqa_en: set(
    'f1',
    64,
    'Read the following text and answer briefly.\n\n{context}\n\nNow, answer the following question based on the above text, only give me the answer and do not output any other words.\n\nQuestion: {input}\nAnswer:',
  ),
  hotpotqa: set('f1', 32, PASSAGES),
  '2wikimqa': set('f1', 32, PASSAGES),
  musique: set('f1', 32, PASSAGES),
  gov_report: set(
    'rougeL',
    512,
    'You are given a report by a government agency. Write a one-page summary of the report.\n\nReport:\n{context}\n\nNow, write a one-page summary of the report.\n\nSummary:',
  ),
  qmsum: set(
    'rougeL',
    512,
    'You are given a meeting transcript and a query containing a question or instruction. Answer the query in one or more sentences.\n\nTranscript:\n{context}\n\nNow, answer the query based on the above meeting transcript in one or more sentences.\n\nQuery: {input}\nAnswer:',
  ),
  multi_news: set(
    'rougeL',
    512,
    'You are given several news passages. Write a one-page summary of all news. \n\nNews:\n{context}\n\nNow, write a one-page summary of all the news.\n\nSummary:',
  ),
  trec: set(
    'classification',
    64,
    'Please determine the type of the question below. Here are some examples of questions.\n\n{context}\n{input}',
  ),
  triviaqa: set(
    'lineF1',
    32,
    'Answer the question based on the given passage. Only give me the answer and do not output any other words. The following are some examples.\n\n{context}\n\n{input}',
  ),
  samsum: set(
    'lineRougeL',
    128,
    'Summarize the dialogue into a few short sentences. The following are some examples.\n\n{context}\n\n{input}',
  ),
  lsht: set('classification', 64, '请判断给定新闻的类别，下面是一些例子。\n\n{context}\n{input}'),
  passage_count: set(
    'count',
    32,
    'There are some paragraphs below sourced from Wikipedia. Some of them may be duplicates. Please carefully read these paragraphs and determine how many unique paragraphs there are after removing duplicates. In other words, how many non-repeating paragraphs are there in total?\n\n{context}\n\nPlease enter the final count of unique paragraphs after removing duplicates. The output format should only contain the number, such as 1, 2, 3, and so on.\n\nThe final answer is: ',
  ),
  passage_retrieval_en: set(
    'retrieval',
    32,
    'Here are 30 paragraphs from Wikipedia, along with an abstract. Please determine which paragraph the abstract is from.\n\n{context}\n\nThe following is an abstract.\n\n{input}\n\nPlease enter the number of the paragraph that the abstract is from. The answer format must be like "Paragraph 1", "Paragraph 2", etc.\n\nThe answer is: ',
  ),
  passage_retrieval_zh: set(
    'retrieval',
    32,
    '以下是若干段落文字，以及其中一个段落的摘要。请确定给定的摘要出自哪一段。\n\n{context}\n\n下面是一个摘要\n\n{input}\n\n请输入摘要所属段落的编号。答案格式必须是"段落1"，"段落2"等格式\n\n答案是：',
  ),
  lcc: set('code', 64, 'Please complete the code given below. \n{context}Next line of code:\n'),
  'repobench-p': set('code', 64, 'Please complete the code given below. \n{context}{input}Next line of code:\n'),
};

/** Returns how a data set is asked and graded. @throws KvError for one that is unknown, or graded by words of jieba */
export function longBenchSet(dataset: string, place: string): LongBenchSet {
  const name = dataset.replace(/_e$/, ''); // of LongBench-E
  if (Object.hasOwn(SETS, name)) return SETS[name];
  const names = Object.keys(SETS);
  throw new KvError(
    place,
    `dataset must be one of ${names.join(', ')}${didYouMean(name, names)}, got ${JSON.stringify(dataset.slice(0, 80))}: leave such rows out (multifieldqa_zh, dureader and vcsum are graded by words of jieba, which kv lacks)`,
  );
}
