/** The first page: what its program prints, as a picture of the tokens that two policies keep over time. */

/**
 * Returns a panel for each policy: the text in runs of tokens that are read in the same frame and leave in the same one.
 * @param {string} printed by `apps/docs/landing/kept-over-time.mjs`, one JSON object a line
 * @param {readonly string[]} tokens of the conversation
 */
export function panelsOf(printed, tokens, fact) {
  const panels = new Map();
  for (const { policy, kept, read, answer } of printed.trim().split('\n').map(JSON.parse)) {
    const panel = panels.get(policy) ?? { policy, frames: [] };
    panels.set(policy, panel);
    if (answer === undefined) panel.frames.push({ read, kept: new Set(kept.flat(2)), slots: kept[0][0].length });
    else panel.answer = answer.trim();
  }
  return [...panels.values()].map(({ policy, frames, answer }) => ({
    ...{ policy, answer, isRight: answer.includes(fact), tokens: tokens.length },
    slots: frames.at(-1).slots,
    frames: frames.length,
    /** Share of the text that the cache holds, by frame. */
    held: frames.map(({ slots }) => slots / tokens.length),
    runs: runsOf(frames, tokens, fact),
  }));
}

/** A run is in memory after more than `from` frames, and has left after more than `to`. */
function runsOf(frames, tokens, fact) {
  const [start, runs] = [tokens.join('').indexOf(fact), []];
  let at = 0;
  for (const [i, text] of tokens.entries()) {
    const from = frames.findIndex(({ read }) => i < read),
      left = frames.findIndex(({ kept }, frame) => frame >= from && !kept.has(i)),
      isFact = at < start + fact.length && at + text.length > start,
      last = runs.at(-1);
    at += text.length;
    // what leaves in the event after its own block is shown for a moment, but not in the end
    const to = left < 0 ? undefined : left === from && from < frames.length - 1 ? from + 1 : left;
    if (last && last.from === from && last.to === to && last.isFact === isFact) last.text += text;
    else runs.push({ text, from, to, isFact });
  }
  return runs;
}

/** Returns the number of the first page, from a table of studies/hard-half. */
export function measured({ rows }, name, budget) {
  const of = (policy, kept) => rows.find((row) => row.forms === 'both' && row.name === policy && row.budget === kept),
    [full, row] = [of('full', 'all'), of(name, budget)];
  return { prompts: row.n, tokens: row.tokens, share: percent(row), full: percent(full) };
}
const percent = ({ hits, n }) => `${+((100 * hits) / n).toFixed(1)}\u00a0%`;

/** Returns the first page: the theme's Landing shows it, the program where its text is. */
export const landingPage = (program) => `---
layout: Landing
sidebar: false
title: Long conversations in fixed memory
titleTemplate: kv
---

\`\`\`js
${program.trim()}
\`\`\`
`;
