/** Forms of a fact in a novel (`@kv/tasks`). */
export const FORMS = ['number', 'code'];
const QUESTIONS = {
  number: (key) => `\nQuestion: What is the special magic ${key} number?\nAnswer: The special magic ${key} number is:`,
  code: (key) => `\n\nQuestion: What is the ${key} code?\nAnswer: According to the text, "The ${key} code is:`,
};
/** The question and the beginning of its answer, as RULER asks. */
export const questionOf = (form, key) => QUESTIONS[form](key);
