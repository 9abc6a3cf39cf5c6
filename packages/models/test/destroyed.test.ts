import { expect, test } from 'vitest';
import { Chat, cpuRuntime, generate, loadModel, Sequence, type HostModel } from '../src/index.ts';

const gone = 'model: was destroyed: load it again';
const runtimes: readonly (readonly [string, () => Promise<HostModel>])[] = [
  ['one thread', () => loadModel('embedded', { runtime: cpuRuntime({ threads: 1 }) })],
  ['two threads', () => loadModel('embedded', { runtime: cpuRuntime({ threads: 2 }) })],
  ['weights as stored', () => loadModel('embedded', { runtime: cpuRuntime({ exact: false }) })],
];

test.each(runtimes)('a destroyed model refuses whatever comes, with %s', async (_, load) => {
  const model = await load(),
    chat = new Chat(model, { maxNewTokens: 2 }),
    sequence = new Sequence(model);
  await chat.send('Hi');
  await sequence.prefill([1, 2, 3]);
  const token = await sequence.next();
  model.destroy();
  model.destroy();
  await expect(chat.send('Hi')).rejects.toThrow(gone);
  await expect(sequence.append([4])).rejects.toThrow(gone);
  await expect(sequence.step(token)).rejects.toThrow(gone);
  await expect(sequence.evict('knorm', '50%')).rejects.toThrow(gone);
  expect(() => sequence.fork()).toThrow(gone);
  await expect(generate(model, { ids: [1, 2] })).rejects.toThrow(gone);
  expect(() => new Sequence(model)).toThrow(gone);
  sequence.destroy();
  sequence.destroy();
  chat.destroy();
});

test.each(runtimes)('a model that is destroyed while it answers ends the answer, with %s', async (_, load) => {
  const model = await load(),
    answer = generate(model, {
      ids: Array.from({ length: 300 }, (__, i) => (i * 7) % 500),
      maxNewTokens: 400,
      stopAtEos: false,
    }),
    tokens: number[] = [];
  await expect(
    (async () => {
      for await (const { token = 0 } of answer) if (tokens.push(token) === 2) model.destroy();
    })(),
  ).rejects.toThrow(gone);
  expect(tokens.length).toBeLessThan(5);
});
