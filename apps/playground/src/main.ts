import './trusted.ts';
import { readAddress, writeAddress } from './address.ts';
import { element } from './element.ts';
import { choiceForm } from './form.ts';
import type { FromWorker, Opened, ToWorker } from './messages.ts';
import { keepOffline } from './offline/register.ts';
import { player } from './player.ts';

/** Put in by bundle/embedded-model.ts: a folder relative to the page, and its files. */
declare const __MODEL__: { readonly folder: string; readonly files: readonly string[] };

const form = choiceForm(),
  view = player(),
  device = element('device', HTMLParagraphElement),
  stop = element('stop', HTMLButtonElement),
  copied = element('copied', HTMLSpanElement);
const worker = new Worker(new URL('./worker.ts', import.meta.url), { type: 'module' });
const model = { url: new URL(__MODEL__.folder, document.baseURI).href, files: __MODEL__.files };
const send = (message: ToWorker): void => worker.postMessage(message);
const hash = (): string => `#${writeAddress(form.read())}`;
let run = 0,
  policies: readonly [string, string] = ['', ''];

function start(): void {
  history.replaceState(null, '', hash());
  if (!form.check()) {
    document.body.dataset.state = 'refused';
    fail('Not run: a field above says why.');
    return;
  }
  const choice = form.read();
  policies = choice.policies;
  stop.disabled = false;
  document.body.dataset.state = 'running';
  if (device.dataset.device === 'none') device.textContent = 'Loading the model …';
  send({ type: 'run', run: ++run, choice, model });
}

function said({ device: kind, name, because }: Opened): string {
  return kind === 'webgpu' ? `Runs on WebGPU: ${name}.` : `Runs on the CPU (${name}), not on WebGPU: ${because}.`;
}

worker.addEventListener('message', ({ data }: MessageEvent<FromWorker>) => {
  if (data.type === 'opened') {
    device.textContent = said(data.opened);
    device.dataset.device = data.opened.device;
    return;
  }
  if (data.run !== run) return;
  switch (data.type) {
    case 'prompt':
      view.start(data, policies);
      form.suggest(data.prompt.text);
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
      stop.disabled = true;
      document.body.dataset.state = 'done';
  }
});
worker.addEventListener('error', ({ message }) =>
  fail(`The worker could not start: ${message || 'its file did not load'}.`),
);

function fail(message: string): void {
  device.textContent = message;
  device.dataset.device = 'none';
}

element('choice', HTMLFormElement).addEventListener('submit', (event) => {
  event.preventDefault();
  start();
});
element('choice', HTMLFormElement).addEventListener('input', () => {
  copied.textContent = '';
  history.replaceState(null, '', hash());
});
stop.addEventListener('click', () => send({ type: 'stop' }));
element('another', HTMLButtonElement).addEventListener('click', () => {
  form.another();
  start();
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
  start();
});

form.write(readAddress(location.hash));
start();
void keepOffline().then((words) => {
  element('offline', HTMLSpanElement).textContent = words;
});
