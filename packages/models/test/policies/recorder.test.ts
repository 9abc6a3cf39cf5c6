import { generate } from '../../src/index.ts';
import { fates, recorder, traceFile } from '@kv/engine';
import { beforeAll, describe, expect, it } from 'vitest';
import { parsePolicy } from '@kv/policies';
import { llamaGolden } from './goldens.ts';

let golden: Awaited<ReturnType<typeof llamaGolden>>;
beforeAll(async () => {
  golden = await llamaGolden();
});
const run = async (text: string, options: object, record = true) => {
  const { model, ids } = golden,
    recorded = recorder(parsePolicy(text)),
    { tokens, report } = await generate(model, {
      ids,
      policy: record ? recorded.policy : parsePolicy(text),
      budget: 40,
      maxNewTokens: 6,
      ...options,
    });
  return { tokens, kept: report.kept, events: recorded.events, ids };
};

describe.each([
  ['h2o(recent=8) | topK', {}],
  ['snapkv(window=8) | caote | topK', { block: 64 }],
  ['adakv(window=8)', { every: 3 }],
  ['alpha(window=8)', {}],
])('%s', (text, options) => {
  it('decides the same when it is recorded', async () => {
    const [plain, recorded] = [await run(text, options, false), await run(text, options)];
    expect(recorded.kept).toEqual(plain.kept);
    expect(recorded.tokens).toEqual(plain.tokens);
  });
  it('says of every token of the prompt whether it stayed, as the cache itself does', async () => {
    const { events, kept, ids } = await run(text, options);
    for (let position = 0; position < ids.length; position += 3)
      for (const { layer, head, stays, left } of fates(events, position)) {
        expect(stays).toBe(kept[layer][head].includes(position));
        expect(left === undefined).toBe(stays);
      }
  });
});

it('a token leaves top-k where its rank by brute force is beyond the room', async () => {
  const { events, ids } = await run('h2o(recent=8) | topK', {});
  let judged = 0;
  for (let position = 0; position < ids.length; position++)
    for (const { layer, head, stays, why } of fates(events, position)) {
      const event = events.find((one) => one.layer === layer)!, // a fate belongs to one event
        { scores = [], forced = [] } = event.steps.at(-1)!, // a selector
        each = scores.length / event.kvHeads,
        own = scores.slice(head * each, (head + 1) * each),
        score = (i: number): number => own.reduce((sum, row) => sum + row[i], 0) / each,
        must = (i: number): boolean => forced[Math.min(head, forced.length - 1)]?.[i] === 1,
        all = [...event.positions[head].keys()],
        ranked = all.filter((i) => !must(i)).sort((a, b) => score(b) - score(a) || a - b);
      expect(why?.forced).toBe(must(position));
      expect(stays).toBe(must(position) || ranked.indexOf(position) < 40 - all.filter(must).length);
      if (!must(position)) expect(why?.rank).toBe(ranked.indexOf(position) + 1);
      judged++;
    }
  expect(judged).toBeGreaterThan(500);
});

it('writes scores, masks and kept sets as safetensors', async () => {
  const { events, kept } = await run('snapkv(window=8) | caote | topK', { maxNewTokens: 0 }),
    file = traceFile(events, { policy: 'p' }),
    size = Number(new DataView(file.buffer, file.byteOffset).getBigUint64(0, true)),
    header = JSON.parse(new TextDecoder().decode(file.subarray(8, 8 + size))) as Record<
      string,
      { shape: number[]; data_offsets: [number, number] }
    >;
  expect(header['__metadata__']).toEqual({ policy: 'p' });
  const names = Object.keys(header).filter((name) => name.startsWith('event.0.layer.2.'));
  expect(names).toContain('event.0.layer.2.0.snapkv.scores');
  expect(names).toContain('event.0.layer.2.2.topK.forced');
  const {
      shape,
      data_offsets: [from, to],
    } = header['event.0.layer.2.2.topK.kept'],
    mask = new Float32Array(file.slice(8 + size + from, 8 + size + to).buffer);
  kept[2].forEach((row, g) =>
    expect([...Array(shape[1]).keys()].filter((i) => mask[g * shape[1] + i] === 1)).toEqual([...row]),
  );
});
it('has nothing to write where nothing was evicted', () => {
  expect(() => traceFile([], {})).toThrow(
    'trace: expected a policy that evicts within the run, got one without an event',
  );
});
