/** The page: shows what the worker says, and sends it what a person writes. */
import { budget, model, policy } from './settings.js';

const [status, fetchButton, progress, messages, form, message, send, meter, memory] = [
  ...['#status', '#fetch', '#progress', '#messages', 'form', '#message', '#send', '#meter', '#memory'],
].map((name) => document.querySelector(name));
const worker = new Worker(new URL('./worker.js', import.meta.url), { type: 'module' });
let answer; // the element of the answer that is being written

const megabytes = (bytes) => `${(bytes / 1e6).toFixed(1)} MB`;

function add(who, text) {
  const element = document.createElement('p');
  [element.className, element.textContent] = [who, text];
  messages.append(element);
  element.scrollIntoView();
  return element;
}

/** Shows how far something is; nothing once it is done. */
function show(share) {
  progress.hidden = share >= 1;
  progress.value = share;
}

/** Lets a person write, or stop the answer. */
function setBusy(busy) {
  message.disabled = busy;
  [send.disabled, send.textContent] = [false, busy ? 'Stop' : 'Send'];
  if (!busy) message.focus();
}

const load = (mayFetch) => worker.postMessage({ type: 'load', mayFetch, page: document.baseURI });

const handlers = {
  /** The browser does not have the model yet. */
  absent() {
    status.textContent = `${model} is not in this browser yet. It comes from huggingface.co once, and stays.`;
    fetchButton.hidden = false;
  },
  progress({ done, total }) {
    show(done / total);
    status.textContent = `${model}: ${megabytes(done)} of ${megabytes(total)}`;
  },
  ready({ engine }) {
    show(1);
    status.textContent = `${model} on ${engine}; ${policy} keeps ${budget} tokens.`;
    setBusy(false);
  },
  read: ({ done, total }) => show(done / total),
  text({ text, reasoning = '' }) {
    if (reasoning !== '' && !answer.querySelector('i')) answer.append(document.createElement('i'));
    answer.querySelector('i')?.append(reasoning);
    answer.append(text);
    answer.scrollIntoView({ block: 'end' });
  },
  kept({ tokens, slots, bytes, whole }) {
    meter.value = slots / budget;
    memory.textContent = `${tokens} tokens so far, ${slots} kept: ${megabytes(bytes)} instead of ${megabytes(whole)}`;
  },
  answered() {
    show(1);
    setBusy(false);
  },
  failed({ message: sentence }) {
    show(1);
    status.textContent = sentence;
    if (answer) setBusy(false);
    else [fetchButton.textContent, fetchButton.hidden] = ['Try again', false];
  },
};
worker.onmessage = ({ data: { type, ...data } }) => handlers[type](data);
worker.onerror = ({ message: sentence }) => handlers.failed({ message: sentence || 'The worker did not start.' });

fetchButton.onclick = () => {
  fetchButton.hidden = true;
  load(true);
};
form.onsubmit = (event) => {
  event.preventDefault();
  if (message.disabled) return worker.postMessage({ type: 'stop' });
  add('user', message.value);
  answer = add('model', '');
  worker.postMessage({ type: 'send', text: message.value });
  message.value = '';
  setBusy(true);
};
message.onkeydown = (event) => {
  if (event.key !== 'Enter' || event.shiftKey || event.isComposing) return;
  event.preventDefault();
  form.requestSubmit();
};
load(false);
