import { KvError } from '@kv/core';
import { fitsHeads, tokenBytes, headDims } from '@kv/engine';
import type { Model } from '@kv/models';
import { openComputer, type Computer } from '../worker/device.ts';
import { loadChosen } from '../worker/model.ts';
import { modelKeeper } from '../worker/models.ts';
import { sentenceOf } from '../worker/sentence.ts';
import { conversations, type Conversations } from './conversations.ts';
import type { FromChat, ToChat } from './messages.ts';

type Open = Extract<ToChat, { type: 'open' }>;
type Send = Extract<ToChat, { type: 'send' }>;

/** Answers the chat page's messages, in its worker. */
export function serveChat(): void {
  const send = (message: FromChat): void => self.postMessage(message),
    keepModels = modelKeeper((message) => send({ type: 'model', message }));
  let loaded: { readonly computer: Computer; readonly model: Model } | undefined,
    talking: Conversations | undefined,
    current = new AbortController(),
    last: Promise<void> = Promise.resolve();

  const clear = (): void => {
    talking?.destroy();
    talking = undefined;
  };
  const close = (): void => {
    clear();
    loaded?.model.destroy();
    loaded?.computer.destroy();
    loaded = undefined;
  };
  const open = async ({ request, device }: Open, signal: AbortSignal): Promise<void> => {
    close();
    const computer = await openComputer(device);
    try {
      const model = await loadChosen(request, computer, signal);
      loaded = { computer, model };
      const { name, config, chatTemplate, cacheForm, cacheForms } = model;
      send({
        type: 'opened',
        model: {
          name: request.model.name || name,
          device: computer.opened,
          context: config.maxPositions,
          cache: cacheForm,
          caches: cacheForms
            .filter((form) => fitsHeads(form, headDims(config)))
            .map((form) => ({ form, bytesPerToken: tokenBytes(form, config) })),
          template: chatTemplate?.() !== undefined,
        },
      });
    } catch (error) {
      if (!loaded) computer.destroy();
      close();
      if (!signal.aborted) send({ type: 'closed', message: sentenceOf(error) });
    }
  };
  const answer = async ({ text, choice }: Send, signal: AbortSignal): Promise<void> => {
    const begins = talking === undefined;
    try {
      if (!loaded) return;
      talking ??= conversations(loaded.model, choice, send);
      await talking.send(text, choice, signal);
    } catch (error) {
      if (signal.aborted) return;
      if (KvError.is(error) && error.at !== 'gpu') {
        if (begins) clear(); // the next message may come with another window
        return send({ type: 'failed', message: sentenceOf(error) });
      }
      close();
      send({ type: 'closed', message: sentenceOf(error) });
    } finally {
      send({ type: 'done' });
    }
  };

  self.addEventListener('message', ({ data }: MessageEvent<ToChat>) => {
    if (data.type === 'model') return keepModels(data.message);
    current.abort();
    if (data.type === 'stop') return;
    const { signal } = (current = new AbortController());
    // one at a time: what came before ends soon, since it was aborted
    last = last.then(() => {
      if (data.type === 'open') return open(data, signal);
      if (data.type === 'send') return answer(data, signal);
      clear();
      send({ type: 'cleared' });
    });
  });
}
