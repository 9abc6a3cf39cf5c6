import { fetchModel } from '@kv/hub/browser';
import type { FromModels, ToModels } from '../model-messages.ts';
import { forgetModels, isAbsent } from './model.ts';
import { sentenceOf } from './sentence.ts';

/** Ends a download before it begins: its size was all that was asked for. */
const LOOKED_UP: unique symbol = Symbol('looked up');

/** Creates what answers a page's messages about models of the hub: finds, downloads and deletes them. */
export function modelKeeper(send: (message: FromModels) => void): (message: ToModels) => void {
  let current = new AbortController();
  const find = async ({ name, wanted }: Extract<ToModels, { type: 'find' }>): Promise<void> => {
    current.abort();
    const { signal } = (current = new AbortController());
    try {
      await fetchModel(name, {
        offline: wanted === 'nothing',
        signal,
        onPlan({ total, license }) {
          if (wanted === 'download') return;
          send({ type: 'absent', name, bytes: total, ...(license !== undefined && { license }) });
          throw LOOKED_UP;
        },
        onProgress: (progress) => send({ type: 'progress', progress }),
      });
      send({ type: 'kept', name });
    } catch (error) {
      if (error === LOOKED_UP) return;
      if (signal.aborted || isAbsent(error)) send({ type: 'absent', name });
      else send({ type: 'refused', name, message: sentenceOf(error) });
    }
  };
  return (message) => {
    if (message.type === 'find') void find(message);
    else if (message.type === 'halt') current.abort();
    else void forgetModels().then(() => send({ type: 'forgotten' }));
  };
}
