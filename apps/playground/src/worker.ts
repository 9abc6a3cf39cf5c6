import { KvError } from '@kv/core';
import type { Model } from '@kv/models';
import { fates, recorder, slotHeads, slotModel, type RecordedEvent } from '@kv/engine';
import { parsePolicy } from '@kv/policies';
import { formOf, type RunChoice, type DeviceChoice } from './choice.ts';
import { serveChat } from './chat/serve.ts';
import { serveMachine } from './machine/serve.ts';
import type { End, Frame, FromWorker, Side, ToWorker } from './messages.ts';
import { answer } from './worker/answer.ts';
import { onCpu, openComputer, type Computer } from './worker/device.ts';
import { forgetModels, keyOf, modelOf } from './worker/model.ts';
import { promptOf, type PromptParts } from './worker/prompt.ts';
import { sentenceOf } from './worker/sentence.ts';

type Run = Extract<ToWorker, { readonly choice: unknown }>;
type Why = Extract<ToWorker, { type: 'why' }>;
interface Loaded {
  readonly wish: DeviceChoice;
  readonly key: string;
  readonly computer: Computer;
  readonly model: Model;
}

const send = (message: FromWorker): void => self.postMessage(message);

let loaded: Loaded | undefined;
/** The model on the CPU, for explanations when the run used a GPU: they need scores on the host. */
let host: Promise<Model> | undefined;
/** The last run, and the recorded decisions of its sides, by side, once they were asked for. */
let ran:
  | { readonly run: Run; readonly fed: PromptParts; readonly recorded: Map<number, readonly RecordedEvent[]> }
  | undefined;
let current = new AbortController();
/** Whether an error may concern the device, so that the next run opens it again. */
let spoilt = false;
let last: Promise<void> = Promise.resolve();

// one file for all pages, so that the engine is downloaded and kept for use offline once
if (self.name === 'chat') serveChat();
else if (self.name === 'machine') serveMachine();
else self.addEventListener('message', ({ data }: MessageEvent<ToWorker>) => listen(data));

function listen(data: ToWorker): void {
  if (data.type === 'why') {
    const { signal } = current;
    last = last.then(() => explain(data, signal));
    return;
  }
  current.abort();
  const { signal } = (current = new AbortController()); // after a stop too, since reasons may be asked for next
  if (data.type === 'stop') return;
  // one at a time: the run before ends soon, since it was aborted
  last = last.then(() => (data.type === 'forget' ? clear() : perform(data, signal)));
}

async function clear(): Promise<void> {
  forget();
  await forgetModels();
  send({ type: 'forgotten' });
}

async function perform(asked: Run, signal: AbortSignal): Promise<void> {
  const { run, choice } = asked;
  if (signal.aborted) return send({ type: 'done', run });
  try {
    const { model } = await load(asked, signal);
    if (asked.type === 'choose') {
      await chooseOver(model, asked, signal);
      return send({ type: 'done', run });
    }
    const fed = await promptOf(model, choice),
      heads = slotHeads(slotModel(model.config)).map(({ kvHeads }) => kvHeads);
    ran = { run: asked, fed, recorded: new Map() };
    send({ type: 'prompt', run, prompt: fed.prompt, heads });
    const open = new Map(
      choice.policies.map((policy, side): [Side, AsyncGenerator<Frame | End>] => {
        const { budget, maxNewTokens } = choice,
          cache = formOf(choice.cache);
        return [side, answer({ ...fed, model, policy: parsePolicy(policy), budget, cache, maxNewTokens, signal })];
      }),
    );
    // interleaved token by token, so that all sides can be watched
    while (open.size > 0)
      for (const [side, tokens] of open) if (!(await forward(run, side, tokens, signal))) open.delete(side);
  } catch (error) {
    if (!signal.aborted) spoilt ||= isOfDevice(error);
    send({ type: 'failed', run, message: signal.aborted ? 'Stopped.' : sentenceOf(error) });
  }
  if (spoilt) forget();
  send({ type: 'done', run });
}

/** Chooses a policy for the choice's own text. Its code is loaded when it is asked for. */
async function chooseOver(model: Model, { run, choice: { source, budget } }: Run, signal: AbortSignal): Promise<void> {
  const { chooseFor } = await import('./worker/choose.ts'),
    text = source.kind === 'text' ? source.text : '';
  await chooseFor(model, text, budget, { signal, onChoice: (chosen) => send({ type: 'chosen', run, chosen }) });
}

/** Advances one side by a token; false after its last. */
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
    spoilt ||= isOfDevice(error);
    send({ type: 'failed', run, side, message: sentenceOf(error) });
    return false;
  }
}

/** Whether an error may concern the device; a prompt or policy that cannot be run does not. */
const isOfDevice = (error: unknown): boolean => !KvError.is(error) || error.at === 'gpu';

/**
 * Explains why a position was dropped or kept: runs the side again on the CPU and records every step of its events. Every
 * question is answered, since the page waits for it.
 */
async function explain({ run, side, position }: Why, signal: AbortSignal): Promise<void> {
  const answered = { type: 'why', run, side, position, fates: [] } as const;
  try {
    signal.throwIfAborted();
    if (ran?.run.run !== run || !loaded)
      throw new KvError('why', 'expected a run whose model is still loaded, got an earlier one: press Run again');
    const { run: asked, fed, recorded } = ran;
    const events =
      recorded.get(side) ?? (await record(asked.choice, fed, side, await hostModel(asked, signal), signal));
    recorded.set(side, events);
    send({ ...answered, fates: events.length === 0 ? [] : fates(events, position) });
  } catch (error) {
    send({ ...answered, failed: signal.aborted ? 'stopped before the reason was found.' : sentenceOf(error) });
  }
}

async function record(
  { policies, budget, cache, maxNewTokens }: RunChoice,
  fed: PromptParts,
  side: number,
  model: Model,
  signal: AbortSignal,
): Promise<readonly RecordedEvent[]> {
  const { policy, events } = recorder(parsePolicy(policies[side]));
  const steps = answer({ ...fed, model, policy, budget, cache: formOf(cache), maxNewTokens, signal });
  while (!(await steps.next()).done);
  signal.throwIfAborted();
  return events;
}

function hostModel(asked: Run, signal: AbortSignal): Promise<Model> | Model {
  if (loaded?.computer.opened.device === 'cpu') return loaded.model;
  host ??= modelOf(asked, onCpu(''), send, signal).catch((error: unknown) => {
    host = undefined;
    throw error;
  });
  return host;
}

/** Loads the model on a device; kept until another device or model is asked for. */
async function load(asked: Run, signal: AbortSignal): Promise<Loaded> {
  const wish = asked.choice.device,
    key = keyOf({ model: asked.choice.model, chosen: asked.chosen });
  if (loaded?.wish !== wish || loaded.key !== key) {
    forget();
    const computer = await openComputer(wish);
    try {
      loaded = { wish, key, computer, model: await modelOf(asked, computer, send, signal) };
    } catch (error) {
      computer.destroy();
      throw error;
    }
  }
  send({ type: 'opened', opened: loaded.computer.opened });
  return loaded;
}

function forget(): void {
  loaded?.model.destroy();
  loaded?.computer.destroy();
  void host?.then((model) => model.destroy());
  loaded = host = ran = undefined;
  spoilt = false;
}
