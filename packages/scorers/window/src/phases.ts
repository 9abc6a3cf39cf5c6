import { count, keys, positions, queries, text, tokens, weightScorer, whole } from '@kv/core';
import { blockAttention, overWindow, range, turnsOf } from '@kv/core/shared';
import type { StepContext, Tensor, Tokens } from '@kv/core';

type Stretch = readonly [from: number, to: number];

/** Returns the stretches of a text from `<tag>` to the end of the next `</tag>`, or to its own end. */
function insideTag(told: string, tag: string): readonly Stretch[] {
  const found: Stretch[] = [];
  for (let at = told.indexOf(`<${tag}>`); at >= 0; at = told.indexOf(`<${tag}>`, found.at(-1)![1])) {
    const close = told.indexOf(`</${tag}>`, at);
    found.push([at, close < 0 ? told.length : close + tag.length + 3]);
  }
  return found;
}

/** Returns the phase of every token: the role of its turn, and the tag that it stands in there, if any. */
function phasesOf(read: Tokens, length: number, tags: readonly string[]): readonly string[] {
  const { offsets } = read,
    phases = new Array<string>(length).fill('');
  for (const { start, end, role } of turnsOf(read, Math.min(length, offsets.length))) {
    phases.fill(role, start, end);
    const from = offsets[start][0],
      told = read.text.slice(from, offsets[end - 1][1]);
    for (const tag of tags) {
      const inside = insideTag(told, tag);
      for (let i = start, s = 0; i < end; i++) {
        while (s < inside.length && inside[s][1] <= offsets[i][0] - from) s++;
        if (s < inside.length && inside[s][0] < offsets[i][1] - from) phases[i] = `${role} ${tag}`;
      }
    }
  }
  return phases;
}

/** Neighbouring positions. */
interface Run {
  readonly first: number;
  readonly count: number;
}
/** Returns the newest `each` of the last `have` positions of every phase, as runs in order. */
function newestOf(phases: readonly string[], have: number, each: number): readonly (readonly Run[])[] {
  const groups = new Map<string, number[]>();
  for (let p = phases.length - 1; p >= phases.length - have; p--) {
    const own = groups.get(phases[p]) ?? [];
    groups.set(phases[p], own);
    if (own.length < each) own.push(p);
  }
  return [...groups.values()].map((own) =>
    own.reduceRight<Run[]>((runs, p) => {
      const last = runs.at(-1);
      if (last && last.first + last.count === p) runs[runs.length - 1] = { ...last, count: last.count + 1 };
      else runs.push({ first: p, count: 1 });
      return runs;
    }, []),
  );
}

type Seen = StepContext & { readonly queries: Tensor; readonly keys: Tensor; readonly positions: Tensor };
/** Returns the sum of the attention rows of a run's queries, `[H, n]`. */
function attended({ ops, at, queries: q, keys: k, positions: p }: Seen, { first, count }: Run): Tensor {
  const [heads, held, d] = q.shape,
    place = first - at.length + held,
    own = ops.take(q, ops.from({ data: range(place, count), shape: [1, count] }, 'u32')),
    // as if the run's queries were the last ones
    then = { ops, at: { ...at, length: first + count }, queries: ops.reshape(own, [heads, count, d]), keys: k };
  return overWindow(then, 'sum', heads, (block) => blockAttention({ ...then, positions: p }, block));
}

const named = (list: string): readonly string[] => list.split(',').filter((name) => name !== '');
/**
 * AgentKV: the attention of the newest queries of every phase among the last `window` ones, mean within a phase, largest
 * over the phases, so that what a phase needs that speaks seldom is not outvoted by the phase that speaks now.
 *
 * @remarks AgentKV, OpenReview s80e8otSxP (2026), whose phases are think, act, tool and other; that queries are grouped
 * by role and tag, and score by their largest mean, is ours. A phase is a role of the chat template (system, user,
 * assistant, tool), and within it each tag of `tags`; text without roles is one phase, and the score is then the mean
 * attention of the last `each` queries. Weights on query rows `[H, n]`; the last `recent` slots are forced. Attention is
 * the softmax of scaled q·k, with learned sinks, without soft caps or sliding windows. O(phases each H n d), and a ring
 * of `window` queries a layer.
 */
export const phases = weightScorer(
  'phases',
  {
    source: 'AgentKV, OpenReview s80e8otSxP',
    says: 'Attention of the newest queries of every phase of an agent: the largest mean.',
    options: {
      window: count(256, 'queries', 'Last queries of which phases have some.'),
      each: count(16, 'queries', 'Newest queries of a phase that count.'),
      recent: whole(16, 'slots', 'Last slots that always stay.'),
      tags: text(
        'think,tool_call,tool_response',
        "names of tags such as 'think', between commas",
        'Phases within a turn: text from `<tag>` to `</tag>`.',
      ),
    },
    check: ({ tags }) =>
      !named(tags).every((tag) => /^[\w.-]+$/.test(tag)) &&
      `tags must be names of letters, digits, '_', '.' and '-' between commas, got '${tags}'`,
    needs: ({ window }) => [queries(window), keys, positions, tokens],
    ends: ({ recent: last }) => ({ last }),
  },
  (ctx, { each, recent, tags }) => {
    const { ops, at, queries: q, keys: k, tokens: read } = ctx;
    const have = Math.min(q.shape[1], at.length);
    const means = newestOf(phasesOf(read, at.length, named(tags)), have, each).map((runs) => {
      const sum = runs.map((run) => attended(ctx, run)).reduce((a, b) => ops.add(a, b));
      return ops.div(
        sum,
        runs.reduce((size, { count: c }) => size + c, 0),
      ); // [H, n]
    });
    return { scores: means.reduce((a, b) => ops.max(a, b)), forced: ops.lastSlots(k, recent) };
  },
);
