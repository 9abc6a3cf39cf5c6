import './trusted.ts';
import { readAddress, writeAddress } from './address.ts';
import type { RunChoice } from './choice.ts';
import { element, make } from './element.ts';
import { choiceForm } from './form.ts';
import type { FromWorker, ToWorker } from './messages.ts';
import { keepOffline } from './offline/register.ts';
import { player } from './player.ts';
import type { TextChoice } from './worker/choose.ts';
import { bytesText, deviceText } from './words.ts';

/** Defined by bundle/embedded-model.ts: a folder relative to the page, and its files. */
declare const __MODEL__: { readonly folder: string; readonly files: readonly string[] };

const form = choiceForm(),
  view = player((side, position) => shown && send({ type: 'why', run: shown.run, side, position })),
  device = element('device', HTMLSpanElement),
  status = element('status', HTMLParagraphElement),
  stop = element('stop', HTMLButtonElement),
  copied = element('copied', HTMLSpanElement),
  chosen = element('chosen', HTMLParagraphElement),
  bar = element('progress', HTMLProgressElement);
const worker = new Worker(new URL('./worker.ts', import.meta.url), { type: 'module' });
const model = { url: new URL(__MODEL__.folder, document.baseURI).href, files: __MODEL__.files };
const send = (message: ToWorker): void => worker.postMessage(message);
const hash = (): string => `#${writeAddress(form.read())}`;
let run = 0,
  /** The choice of the last run. */
  choice: RunChoice,
  /** What the maps show: a later run may have failed, or have chosen a policy. */
  shown: { readonly run: number; readonly choice: RunChoice } | undefined;

/**
 * Starts a run. @param download whether a model of the hub may be downloaded: yes after a button was pressed, no for a
 * link
 * @param type what is run: the policies of the choice, or many, to choose one
 */
function start(download: boolean, type: 'run' | 'choose' = 'run'): void {
  history.replaceState(null, '', hash());
  if (!form.check()) {
    document.body.dataset.state = 'refused';
    fail('Not run: a field above says why.');
    return;
  }
  choice = form.read();
  stop.disabled = false;
  document.body.dataset.state = 'running';
  say(`Loading ${choice.model.name || 'the model'} …`);
  device.textContent = '';
  delete device.dataset.device;
  send({ type, run: ++run, choice, model, chosen: form.files(), download });
}

worker.addEventListener('message', ({ data }: MessageEvent<FromWorker>) => {
  if (data.type === 'forgotten') {
    copied.textContent = 'The models of the hub are deleted from this browser.';
    return;
  }
  bar.hidden = data.type !== 'progress';
  if (data.type === 'opened') {
    say('');
    device.textContent = deviceText(data.opened);
    device.dataset.device = data.opened.device;
    return;
  }
  if (data.type === 'why') {
    if (data.run === shown?.run) view.why(data);
    return;
  }
  if (data.run !== run) return;
  switch (data.type) {
    case 'prompt':
      shown = { run, choice };
      view.start(data, choice);
      if (choice.source.kind === 'needle') form.suggest(data.prompt.text);
      break;
    case 'progress': {
      const { file, done, total, secondsLeft } = data.progress;
      [bar.max, bar.value] = [total, done];
      say(
        `Downloading ${file}: ${bytesText(done)} of ${bytesText(total)}${secondsLeft === undefined ? '' : `, ${Math.ceil(secondsLeft)} s left`}. The browser keeps it.`,
      );
      break;
    }
    case 'chosen':
      show(data.chosen);
      break;
    case 'frame':
      view.frame(data);
      break;
    case 'end':
      view.end(data);
      break;
    case 'failed':
      if (data.side === undefined) fail(data.message);
      else view.fail(data.side, data.message);
      break;
    case 'done':
      view.done();
      stop.disabled = true;
      document.body.dataset.state = 'done';
      if (status.hidden) compare();
  }
});
worker.addEventListener('error', ({ message }) =>
  fail(`The worker could not start: ${message || 'its file did not load'}.`),
);

/** Shows what is chosen, and takes it as the first policy in the end. */
function show({ sentences, policy, done }: TextChoice): void {
  chosen.replaceChildren(...sentences.map((sentence) => make('span', {}, `${sentence} `)));
  if (!done || policy === undefined) return;
  form.write({ ...choice, policies: [policy, ...choice.policies.slice(1)] });
  history.replaceState(null, '', hash());
}

/** Shows progress or an error above the result; empty once the model is loaded. */
function say(words: string, wrong = false): void {
  status.textContent = words;
  status.hidden = words === '';
  status.classList.toggle('wrong', wrong);
}
/** Says so where the maps show another choice than the form. */
function compare(): void {
  if (shown && document.body.dataset.state !== 'running')
    say(hash() === `#${writeAddress(shown.choice)}` ? '' : 'Below is the run before this change: press Run.');
}
const fail = (message: string): void => {
  chosen.textContent = '';
  say(message, true);
};

element('choice', HTMLFormElement).addEventListener('submit', (event) => {
  event.preventDefault();
  start(true);
});
element('choice', HTMLFormElement).addEventListener('input', () => {
  copied.textContent = chosen.textContent = '';
  history.replaceState(null, '', hash());
  compare();
});
stop.addEventListener('click', () => send({ type: 'stop' }));
element('choose', HTMLButtonElement).addEventListener('click', () => {
  chosen.textContent = 'Trying policies …';
  start(true, 'choose');
});
element('another', HTMLButtonElement).addEventListener('click', () => {
  form.another();
  start(true);
});
// a policy picked from the list runs at once, where a run takes a second
element('policies', HTMLDivElement).addEventListener('change', () => {
  if (form.read().model.kind === 'embedded') start(true);
});
element('file', HTMLInputElement).addEventListener('change', ({ target }) => {
  if ((target as HTMLInputElement).files?.length) start(true);
});
element('forget', HTMLButtonElement).addEventListener('click', () => send({ type: 'forget' }));
element('save', HTMLButtonElement).addEventListener('click', () => {
  const svg = view.picture();
  if (svg === undefined) return;
  const href = URL.createObjectURL(new Blob([svg], { type: 'image/svg+xml' }));
  make('a', { href, download: 'kept.svg' }).click();
  setTimeout(() => URL.revokeObjectURL(href), 60_000); // the browser reads it when it saves it
});
element('copy', HTMLButtonElement).addEventListener('click', () => {
  history.replaceState(null, '', hash());
  navigator.clipboard.writeText(location.href).then(
    () => {
      copied.textContent = 'Copied.';
    },
    () => {
      copied.textContent = 'The address bar has it.';
    },
  );
});
addEventListener('hashchange', () => {
  form.write(readAddress(location.hash));
  start(false);
});

form.write(readAddress(location.hash));
start(false);
void keepOffline().then((words) => {
  element('offline', HTMLSpanElement).textContent = words;
});
