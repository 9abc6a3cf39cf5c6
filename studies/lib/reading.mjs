// What studies read from a sequence without generating: answers that greedy decoding would give, and the loss of a text.

/** Returns the place of the largest number of a row. */
export function argMax(row) {
  let best = 0;
  for (let at = 1; at < row.length; at++) if (row[at] > row[best]) best = at;
  return best;
}

/**
 * Returns the ids of a question and those of its answer, of which the first is the last that the question gives: that
 * token could merge with the answer, which begins with a space if one follows the question.
 */
export function askedIds(encode, question, answer) {
  const plain = (text) => encode(text, { special: false }).ids,
    asked = plain(question),
    answered = plain(question + answer),
    same = asked.findIndex((id, at) => id !== answered[at]),
    from = same < 0 ? asked.length : same;
  return { question: answered.slice(0, from - 1), answer: answered.slice(from - 1) };
}

/** Feeds ids and returns the logits that follow each of the last `rows`. */
export async function read(sequence, ids, rows) {
  await sequence.append(ids, { rows });
  return sequence.logits();
}

/** Whether greedy decoding after `question` and the first id of `answer` gives the rest of it. */
export async function gives(sequence, { question, answer }) {
  const rows = await read(sequence, [...question, ...answer], answer.length);
  return answer.slice(1).every((id, at) => argMax(rows[at]) === id);
}

/** Returns the logarithm of the sum of all exponentials. */
function logSum(row) {
  let top = -Infinity,
    sum = 0;
  for (let k = 0; k < row.length; k++) if (row[k] > top) top = row[k];
  for (let k = 0; k < row.length; k++) sum += Math.exp(row[k] - top);
  return top + Math.log(sum);
}

/** Returns the reference for `loss`: of each row the tokens likelier than e^-20, and ln p of each. */
export const likely = (rows) =>
  rows.map((row) => {
    const total = logSum(row),
      tokens = [...row.keys()].filter((k) => row[k] - total > -20);
    return { best: argMax(row), tokens, logs: tokens.map((k) => row[k] - total) };
  });

/**
 * Reads ids: the mean KL of the next token from the reference's, in nats, the share of tokens whose likeliest next one is
 * the reference's, and the mean -ln p of the token that comes, after each id but the last.
 */
export async function loss(sequence, ids, reference) {
  const rows = await read(sequence, ids, ids.length),
    last = ids.length - 1;
  let kl = 0,
    nll = 0,
    top = 0;
  for (let at = 0; at < last; at++) {
    const row = rows[at],
      total = logSum(row),
      { best, tokens, logs } = reference[at];
    for (let k = 0; k < tokens.length; k++) kl += Math.exp(logs[k]) * (logs[k] - row[tokens[k]] + total);
    nll += total - row[ids[at + 1]];
    top += argMax(row) === best;
  }
  return { kl: kl / last, nll: nll / last, top: top / last };
}

/** Rounds to five digits after the point, for rows. */
export const round = (x) => Number(x.toFixed(5));
