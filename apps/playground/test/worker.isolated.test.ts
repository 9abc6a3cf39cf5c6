import { readdirSync } from 'node:fs';
import { createRequire } from 'node:module';
import { dirname } from 'node:path';
import { expect, test, vi } from 'vitest';
import type { RunChoice } from '../src/choice.ts';
import { DEFAULT } from '../src/choice.ts';
import type { FromWorker, ToWorker } from '../src/messages.ts';

type Said<T extends FromWorker['type']> = Extract<FromWorker, { type: T }>;

const folder = dirname(createRequire(import.meta.url).resolve('@kv/model-embedded/config.json')),
  model = { url: folder, files: readdirSync(folder).filter((name) => /\.(?:json|safetensors)$/.test(name)) },
  SHORT: RunChoice = {
    ...DEFAULT,
    source: { kind: 'needle', form: 'number', tokens: 96, depth: 30, seed: 1 },
    ...{ policies: ['streaming'], budget: '50%', maxNewTokens: 4, device: 'cpu' },
  };
const TEXT: RunChoice = { ...SHORT, source: { kind: 'text', text: 'The boys walked on in silence. '.repeat(40) } };

/** Starts the worker's program in this process; returns what sends it a message and waits for an answer. */
async function startWorker() {
  const said: FromWorker[] = [],
    scope = Object.assign(new EventTarget(), { name: '', postMessage: (message: FromWorker) => said.push(message) });
  vi.stubGlobal('self', scope);
  vi.resetModules();
  await import('../src/worker.ts');
  const send = (data: ToWorker): void => void scope.dispatchEvent(new MessageEvent('message', { data }));
  const heard = <T extends FromWorker['type']>(type: T, run: number): Promise<Said<T>> =>
    vi.waitUntil(
      () =>
        said.find((message): message is Said<T> => message.type === type && 'run' in message && message.run === run),
      { timeout: 60_000, interval: 5 },
    );
  const start = (run: number, choice: RunChoice, type: 'run' | 'choose' = 'run'): void =>
    send({ type, run, choice, model, chosen: [], download: false });
  /** Asks for the reasons of a token, once more. */
  const why = async (run: number): Promise<Said<'why'>> => {
    said.splice(0, said.length, ...said.filter(({ type }) => type !== 'why'));
    send({ type: 'why', run, side: 0, position: 20 });
    return heard('why', run);
  };
  return { send, heard, start, why };
}

test('reasons are given after Stop, after policies were tried, and after an error of a prompt, which keeps the model', async () => {
  const { send, heard, start, why } = await startWorker();
  start(1, SHORT);
  await heard('done', 1);
  send({ type: 'stop' });
  expect((await why(1)).fates.some(({ left }) => left !== undefined)).toBe(true);

  start(2, TEXT, 'choose');
  await new Promise((later) => setTimeout(later, 200));
  send({ type: 'stop' });
  await heard('done', 2);
  expect((await why(1)).fates.length).toBeGreaterThan(0);

  start(3, { ...SHORT, source: { kind: 'text', text: ' ' } });
  expect((await heard('failed', 3)).message).toBe('prompt: expected text, got none');
  expect((await why(1)).fates.length).toBeGreaterThan(0); // a model that was thrown away could give none
});

test('a question for reasons is always answered: of a run that is gone, and when stopped', async () => {
  const { send, start, heard, why } = await startWorker();
  expect((await why(1)).failed).toMatch(/^why: expected a run whose model is still loaded/);
  start(1, SHORT);
  await heard('prompt', 1);
  const asked = why(1); // waits for the run
  send({ type: 'stop' });
  expect(await asked).toMatchObject({ fates: [], failed: 'stopped before the reason was found.' });
  start(2, SHORT);
  await heard('done', 2);
  expect((await why(1)).failed).toMatch(/got an earlier one: press Run again$/);
  expect((await why(2)).failed).toBeUndefined();
});
