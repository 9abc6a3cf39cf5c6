/** Runs the model, away from the page, so that the page stays alive. */
import { fetchModel } from '@kv/hub/browser';
import { Chat, cpuRuntime, loadModel } from '@kv/models';
import { budget, model as name, policy } from './settings.js';

let chat, stop;

/** Whether the name is the address of files, and not that of a model of the hub. */
const isAddress = /^(?:[./]|[a-z][a-z\d+.-]*:)/i.test(name);

async function load({ mayFetch, page }) {
  const runtime = cpuRuntime(crossOriginIsolated ? {} : { threads: 1 });
  if (isAddress) return start(await loadModel(new URL(name, page).href, { runtime }));
  let fetched;
  try {
    fetched = await fetchModel(name, {
      offline: !mayFetch,
      onProgress: ({ done, total }) => postMessage({ type: 'progress', done, total }),
    });
  } catch (error) {
    if (mayFetch || !error.message.includes('no network may be used')) throw error;
    return postMessage({ type: 'absent' });
  }
  start(await loadModel(fetched.name, { files: fetched.files, runtime }));
}

function start(model) {
  chat = new Chat(model, { policy, budget });
  postMessage({ type: 'ready', engine: model.engine });
}

async function send({ text: message }) {
  stop = new AbortController();
  const onRead = (done, total) => postMessage({ type: 'read', done, total });
  for await (const { text, reasoning } of chat.send(message, { signal: stop.signal, onRead })) {
    postMessage({ type: 'text', text, reasoning });
    meter();
  }
  meter();
  postMessage({ type: 'answered' });
}

/** Says what the cache holds, and what it would hold if nothing were evicted. */
function meter() {
  const { sequence } = chat,
    { cache } = sequence.memory,
    tokens = sequence.progress.length,
    slots = Math.max(...sequence.kept().flat().map((row) => row.length));
  postMessage({
    ...{ type: 'kept', tokens, slots },
    bytes: cache.liveBytes,
    whole: tokens * cache.bytesPerToken,
  });
}

const calls = { load, send, stop: () => stop?.abort() };
onmessage = async ({ data: { type, ...data } }) => {
  try {
    await calls[type](data);
  } catch (error) {
    postMessage({ type: 'failed', message: error.message });
  }
};
