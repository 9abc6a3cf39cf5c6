import '../trusted.ts';
import { heldOutBook, sentencesOf } from '@kv/tasks';
import { readBudget, whole } from '../address.ts';
import { DEVICES, LIMITS, type DeviceChoice } from '../choice.ts';
import { element, make } from '../element.ts';
import { CHAT_MODEL, modelField } from '../model-field.ts';
import { keepOffline } from '../offline/register.ts';
import { policyChoice } from '../policy-choice.ts';
import { bytesText, deviceText } from '../words.ts';
import type { ChatChoice, FromChat, MemoryUse, OpenedModel, Side, ToChat } from './messages.ts';
import { transcript, wholeText } from './transcript.ts';

/** What `kv chat` begins with, but for the window: small, so that a few turns reach its end. */
const DEFAULT = { policy: 'outstandingSentences', budget: '25%', window: 2048, answer: 96 } as const;
const WINDOWS = [256, 512, 1024, 2048, 4096, 8192, 16_384];
/** Characters of a suggested passage for each token of the window: about a sixth of it. */
const PASSAGE = 0.6;
/** How an answer ended, where that is worth a word. */
const FINISHES: Readonly<Record<string, string>> = { aborted: 'Stopped.', length: 'Cut at the longest answer.' };
/** What the right conversation does. */
const RIGHT = 'evicts nothing';

const worker = new Worker(new URL('../worker.ts', import.meta.url), { type: 'module', name: 'chat' });
const send = (message: ToChat): void => worker.postMessage(message);
const given = new URLSearchParams(location.hash.slice(1));

const form = element('talk', HTMLFormElement),
  setup = element('setup', HTMLDetailsElement),
  modelLine = element('model-line', HTMLElement),
  device = element('device', HTMLSelectElement),
  deviceLine = element('device-line', HTMLSpanElement),
  budget = element('budget', HTMLInputElement),
  windowList = element('window', HTMLSelectElement),
  cacheList = element('cache', HTMLSelectElement),
  answer = element('answer', HTMLInputElement),
  wrong = element('wrong-budget', HTMLParagraphElement),
  explained = element('explained', HTMLParagraphElement),
  status = element('status', HTMLParagraphElement),
  message = element('message', HTMLTextAreaElement),
  sendIt = element('send', HTMLButtonElement),
  stop = element('stop', HTMLButtonElement),
  clear = element('clear', HTMLButtonElement),
  suggested = element('suggested', HTMLSpanElement);
const sides = { left: transcript('left', 'Under a policy'), right: transcript('right', 'Full cache') };
const policy = policyChoice(given.get('policy')?.slice(0, LIMITS.policy) ?? DEFAULT.policy);
const model = modelField({
  kinds: ['hub', 'file'],
  initial: { kind: 'hub', name: given.get('hub')?.slice(0, LIMITS.name) ?? CHAT_MODEL.name },
  send: (about) => send({ type: 'model', message: about }),
  changed: open,
});

let opened: OpenedModel | undefined,
  /** The last message. */
  asked = '',
  /** Whether the conversations hold anything. */
  begun = false,
  /** Tokens at the right end of the charts. */
  chartEnd = 0;
/** The sides that show the last message, and those whose window is full. */
const shown = new Set<Side>(),
  full = new Set<Side>();

element('model', HTMLDivElement).append(model.root);
element('policy-choice', HTMLDivElement).append(policy.root);
const talks = element('talks', HTMLDivElement);
talks.append(sides.left.root, sides.right.root);
budget.value = String(readBudget(given.get('budget') ?? '') ?? DEFAULT.budget);
answer.value = String(whole(given.get('new'), 1, 1024) ?? DEFAULT.answer);
device.value = DEVICES.find((each) => each === given.get('device')) ?? 'auto';

type State = 'empty' | 'loading' | 'ready' | 'answering';
function turnTo(state: State): void {
  document.body.dataset.state = state;
  const ready = state === 'ready';
  sendIt.disabled = !ready || full.size === 2;
  stop.disabled = state !== 'answering';
  for (const button of suggested.querySelectorAll('button')) button.disabled = sendIt.disabled;
  clear.disabled = !ready || !begun;
  for (const field of [windowList, cacheList, answer]) {
    field.disabled = begun || !opened;
    field.title = begun ? 'Clear the conversations to change it' : '';
  }
  for (const field of policy.root.querySelectorAll<HTMLInputElement>('select, input'))
    field.disabled = state === 'answering';
  budget.disabled = state === 'answering';
}

/** Shows an error or what is going on; an empty text shows nothing. */
function say(words: string, isWrong = false): void {
  status.textContent = words;
  status.hidden = words === '';
  status.classList.toggle('wrong', isWrong);
}

function open(): void {
  const request = model.ready();
  opened = undefined;
  empty();
  if (!request) {
    modelLine.textContent = 'Choose a model';
    setup.open = true;
    turnTo('empty');
    return;
  }
  turnTo('loading');
  modelLine.textContent = `Loading ${request.model.name} …`;
  send({ type: 'open', request, device: deviceChoice() });
}

const deviceChoice = (): DeviceChoice => DEVICES.find((each) => each === device.value) ?? 'auto';

/** Lists how caches can be stored, and chooses the form that the address names, else the engine's. */
function listCaches({ caches, cache }: OpenedModel): void {
  const chosen = caches.find(({ form }) => form === given.get('cache'))?.form ?? cache;
  cacheList.replaceChildren(
    ...caches.map(({ form, bytesPerToken }) =>
      make('option', { value: form }, `${form}, ${bytesText(bytesPerToken)} a token`),
    ),
  );
  cacheList.value = chosen;
}

const windowOption = (size: number): HTMLOptionElement => make('option', { value: String(size) }, wholeText(size));

function ready(now: OpenedModel): void {
  opened = now;
  const { name, context, template } = now,
    wish = whole(given.get('window'), 64, context) ?? DEFAULT.window,
    lengths = [...new Set([...WINDOWS, wish, context])].filter((each) => each <= context).sort((a, b) => a - b);
  windowList.replaceChildren(...lengths.map(windowOption));
  windowList.value = String(Math.min(wish, context));
  listCaches(now);
  modelLine.textContent = name;
  deviceLine.textContent = deviceText(now.device);
  setup.open = false;
  say(
    template
      ? ''
      : `${name} has no chat template, as base models have none: it was not trained to answer and goes on with what you write, line by line; a file trained to chat ('Instruct', 'it') answers.`,
  );
  explain();
  turnTo('ready');
  if (document.activeElement === document.body || setup.contains(document.activeElement)) message.focus();
}

/** Says in numbers what the two conversations may hold. */
function explain(slots?: number): void {
  if (!opened) return;
  const size = Number(windowList.value),
    { context } = opened;
  explained.textContent =
    (size < context
      ? `The window is ${wholeText(size)} of the ${wholeText(context)} tokens of the model's context, so that a few turns reach its end`
      : `The window is the model's context, ${wholeText(size)} tokens`) +
    (slots === undefined
      ? '; the budget is a share of it, or slots per layer and KV head.'
      : `; left, ${wholeText(slots)} slots per layer and KV head stay.`);
}

/** Returns the choice; undefined if a field shows that it cannot be kept. */
function choice(): ChatChoice | undefined {
  const kept = readBudget(budget.value);
  wrong.textContent =
    kept === undefined
      ? `budget: expected a share above 0% and up to 100%, or slots from 1 to ${LIMITS.slots}, got '${budget.value}'`
      : '';
  budget.setAttribute('aria-invalid', String(kept === undefined));
  if (!policy.check() || !answer.reportValidity()) return undefined;
  if (kept === undefined) {
    budget.focus();
    return undefined;
  }
  const longest = whole(answer.value, 1, 1024) ?? DEFAULT.answer,
    form = opened?.caches.find((each) => each.form === cacheList.value)?.form;
  if (form === undefined) return undefined; // no model is open
  return { policy: policy.read(), budget: kept, window: Number(windowList.value), cache: form, answer: longest };
}

function ask(text: string): void {
  const now = choice();
  if (sendIt.disabled || text.trim() === '' || !now) return;
  keepAddress(now);
  say('');
  asked = text.trim();
  shown.clear();
  turnTo('answering');
  talks.scrollIntoView({ block: 'nearest' });
  send({ type: 'send', text: asked, choice: now });
}

/** Shows the last message on a side, once that side begins to read it. */
function showMessage(side: Side): void {
  if (shown.has(side)) return;
  if (shown.size === 0) message.value = ''; // what is typed from now on is the next one
  shown.add(side);
  begun = true;
  sides[side].ask(asked);
}

function keepAddress({ policy: text, budget: kept, window: size, cache, answer: longest }: ChatChoice): void {
  const { kind, name } = model.read();
  history.replaceState(
    null,
    '',
    `#${new URLSearchParams({
      ...(kind === 'hub' && { hub: name }),
      ...{
        policy: text,
        budget: String(kept),
        window: String(size),
        cache,
        new: String(longest),
        device: device.value,
      },
    })}`,
  );
}

/** Both charts have the same axes: up to the window, and further if the left conversation is longer. */
function scale({ bytes, slots, tokens }: MemoryUse): void {
  const size = Number(windowList.value);
  chartEnd = Math.max(chartEnd, size, tokens);
  for (const { chart } of Object.values(sides)) chart.scale(chartEnd, (size * bytes) / slots);
}

function empty(): void {
  [begun, chartEnd] = [false, 0];
  full.clear();
  for (const side of Object.values(sides)) side.clear();
  sides.left.keepAt(policy.read(), undefined);
  sides.right.keepAt(RIGHT, undefined);
  explain();
}

function fills(side: Side, { tokens }: MemoryUse): void {
  full.add(side);
  const size = `${wholeText(Number(windowList.value))} tokens`;
  sides[side].say(
    `The window of ${size} ${tokens < Number(windowList.value) ? `has no room for this message after ${wholeText(tokens)}` : 'is full'}: this conversation ends here${side === 'right' && !full.has('left') ? ', and the left one goes on' : ''}.`,
    true,
  );
}

worker.addEventListener('message', ({ data }: MessageEvent<FromChat>) => {
  switch (data.type) {
    case 'model':
      return model.receive(data.message);
    case 'opened':
      return ready(data.model);
    case 'closed':
      [opened, setup.open, modelLine.textContent] = [undefined, true, 'Choose a model'];
      model.refuse(data.message);
      return turnTo('empty');
    case 'retained':
      sides.left.keepAt(policy.read(), data.slots);
      sides.right.keepAt(RIGHT, Number(windowList.value));
      return explain(data.slots);
    case 'reading':
      showMessage(data.side);
      scale(data.held);
      return sides[data.side].read(data.read, data.of, data.held);
    case 'chunk':
      showMessage(data.side);
      scale(data.held);
      return sides[data.side].write(data, data.held);
    case 'ended':
      sides[data.side].hold(data.held);
      return sides[data.side].say(FINISHES[data.finish] ?? '');
    case 'full':
      showMessage(data.side);
      return fills(data.side, data.held);
    case 'failed':
      if (data.side === undefined) return say(data.message, true);
      return sides[data.side].say(data.message);
    case 'cleared':
      empty();
      message.focus();
      return turnTo('ready');
    case 'done':
      if (opened) turnTo('ready');
      if (document.activeElement === document.body) message.focus();
  }
});
worker.addEventListener('error', ({ message: words }) =>
  say(`The worker could not start: ${words || 'its file did not load'}.`, true),
);

let passages = 0;
/** Returns the next passage of the book, with a question about it. */
async function passage(): Promise<string> {
  const sentences = sentencesOf(await heldOutBook()),
    size = Number(windowList.value) * PASSAGE;
  let text = '';
  for (let at = 100 + 60 * passages++; text.length < size; at++)
    text += `${sentences[at % sentences.length].replaceAll(/\s+/g, ' ')} `;
  return `${text}\n\nWhat happens in this passage?`;
}
const SUGGESTED: readonly (readonly [label: string, text: () => string | Promise<string>])[] = [
  ['A passage of a book', passage],
  ['How do I make tea?', () => 'How do I make tea?'],
  ['Write about the sea', () => 'Write a short text about the sea.'],
  ['Go on', () => 'Go on.'],
];
for (const [label, text] of SUGGESTED) {
  const button = make('button', { type: 'button' }, label);
  button.addEventListener('click', () => {
    Promise.resolve(text()).then(ask, () => say('The book of the page did not load: load the page again.', true));
  });
  suggested.append(button);
}

form.addEventListener('submit', (event) => {
  event.preventDefault();
  ask(message.value);
});
message.addEventListener('keydown', (event) => {
  if (event.key !== 'Enter' || event.shiftKey || event.isComposing) return;
  event.preventDefault();
  ask(message.value);
});
stop.addEventListener('click', () => send({ type: 'stop' }));
clear.addEventListener('click', () => send({ type: 'clear' }));
device.addEventListener('input', open);
windowList.addEventListener('input', () => explain());
for (const field of [policy.root, budget])
  field.addEventListener('input', () => {
    full.delete('left'); // another policy may make room
    if (document.body.dataset.state === 'ready') turnTo('ready');
  });
budget.addEventListener('input', () => choice());

windowList.append(windowOption(DEFAULT.window));
empty();
turnTo('empty');
void keepOffline().then((words) => {
  element('offline', HTMLSpanElement).textContent = words;
});
