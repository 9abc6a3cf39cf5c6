import { KvError } from '@kv/core';
import { loadModel, type Model } from '@kv/models';
import { parsePolicy } from '@kv/policies';
import type { Device } from './choice.ts';
import type { End, Frame, FromWorker, Side, ToWorker } from './messages.ts';
import { answer } from './worker/answer.ts';
import { openComputer, type Computer } from './worker/device.ts';
import { promptOf } from './worker/prompt.ts';

type Run = Extract<ToWorker, { type: 'run' }>;
interface Loaded {
  readonly wish: Device;
  readonly computer: Computer;
  readonly model: Model;
}

const send = (message: FromWorker): void => self.postMessage(message);
const sentence = (error: unknown): string => (error instanceof Error ? error.message : String(error));

let loaded: Loaded | undefined;
let current = new AbortController();
/** Whether something went wrong that may concern the device: the next run opens another. */
let spoilt = false;
let last: Promise<void> = Promise.resolve();

self.addEventListener('message', ({ data }: MessageEvent<ToWorker>) => {
  current.abort();
  if (data.type === 'stop') return;
  const { signal } = (current = new AbortController());
  last = last.then(() => perform(data, signal)); // one at a time: the one before ends soon, since it was told to
});

async function perform({ run, choice, model: files }: Run, signal: AbortSignal): Promise<void> {
  if (signal.aborted) return send({ type: 'done', run });
  try {
    const { computer, model } = await load(choice.device, files);
    const fed = await promptOf(model, choice),
      { layers, kvHeads } = model.config;
    send({ type: 'prompt', run, prompt: fed.prompt, layers, kvHeads });
    const open = new Map(
      ([0, 1] as const).map((side): [Side, AsyncGenerator<Frame | End>] => {
        const { budget, newTokens, policies } = choice;
        return [
          side,
          answer({ ...fed, computer, model, policy: parsePolicy(policies[side]), budget, newTokens, signal }),
        ];
      }),
    );
    // token by token in turn, so that both can be watched
    while (open.size > 0)
      for (const [side, tokens] of open) if (!(await forward(run, side, tokens, signal))) open.delete(side);
  } catch (error) {
    spoilt = true;
    send({ type: 'failed', run, message: sentence(error) });
  }
  if (spoilt) forget();
  send({ type: 'done', run });
}

/** One token of one side; false after its last. */
async function forward(
  run: number,
  side: Side,
  tokens: AsyncGenerator<Frame | End>,
  signal: AbortSignal,
): Promise<boolean> {
  try {
    const { value, done } = await tokens.next();
    if (done) return false;
    send('kept' in value ? { type: 'frame', run, side, frame: value } : { type: 'end', run, side, end: value });
    return true;
  } catch (error) {
    if (signal.aborted) {
      send({ type: 'failed', run, side, message: 'Stopped before the first token.' });
      return false;
    }
    if (!KvError.is(error) || error.at === 'gpu') spoilt = true;
    send({ type: 'failed', run, side, message: sentence(error) });
    return false;
  }
}

/** The model on a device; kept until another device is wished for. */
async function load(wish: Device, { url, files }: Run['model']): Promise<Loaded> {
  if (loaded?.wish !== wish) {
    forget();
    const computer = await openComputer(wish);
    loaded = { wish, computer, model: await loadModel(url, { runtime: computer.runtime, files }) };
  }
  send({ type: 'opened', opened: loaded.computer.opened });
  return loaded;
}

function forget(): void {
  loaded?.model.destroy();
  loaded?.computer.destroy();
  loaded = undefined;
  spoilt = false;
}
