import type { Model } from '@kv/models';
import { heldOutBook } from '@kv/tasks';
import { parsePolicy } from '@kv/policies';
import { formOf } from '../choice.ts';
import { onCpu, openComputer, type Computer } from '../worker/device.ts';
import { loadChosen } from '../worker/model.ts';
import { modelKeeper } from '../worker/models.ts';
import { sentenceOf } from '../worker/sentence.ts';
import { measure, run, STEPS, type MeasuredCase } from './measure.ts';
import type { FromMachine, MeasurePlan, ToMachine } from './messages.ts';

type Measure = Extract<ToMachine, { type: 'measure' }>;

/** Milliseconds of runs that are not counted, until a browser has compiled WebAssembly with all optimisations. */
const WARM_UP = 500;

const send = (message: FromMachine): void => self.postMessage(message);

/** Answers the machine page's messages, in its worker. */
export function serveMachine(): void {
  const keepModels = modelKeeper((message) => send({ type: 'model', message }));
  self.addEventListener('message', ({ data }: MessageEvent<ToMachine>) => {
    if (data.type === 'model') keepModels(data.message);
    else void measureAll(data);
  });
}

async function measureAll({ request, plan }: Measure): Promise<void> {
  for (const computer of await computers(plan)) {
    try {
      await measureOn(computer, await loadChosen(request, computer, new AbortController().signal), plan);
    } catch (error) {
      send({ type: 'failed', device: computer.opened.device, message: sentenceOf(error) });
    }
    computer.destroy();
  }
  send({ type: 'done' });
}

/** Opens the devices of a plan, and says of each why it is not measured, if so. */
async function computers({ device }: MeasurePlan): Promise<readonly Computer[]> {
  const cpu = device === 'webgpu' ? [] : [onCpu('')],
    other = device === 'cpu' ? [] : [await openComputer(device)];
  for (const { opened } of cpu) send({ type: 'device', device: { device: 'cpu', name: opened.name } });
  const measured = [...cpu];
  for (const computer of other) {
    const { opened, adapter } = computer,
      isGpu = opened.device === 'webgpu';
    send({
      type: 'device',
      device: {
        device: 'webgpu',
        name: isGpu ? opened.name : 'none',
        ...(adapter && { adapter }),
        ...(opened.because !== undefined && { because: opened.because }),
      },
    });
    if (isGpu) measured.push(computer);
  }
  return measured;
}

async function measureOn({ opened: { device } }: Computer, model: Model, plan: MeasurePlan): Promise<void> {
  const { lengths, policy: text, budget, repeats } = plan,
    stored = { cache: formOf(plan.cache) },
    context = model.config.maxPositions,
    policy = parsePolicy(text),
    book = model.tokenizer.encode(await heldOutBook()).ids,
    most = Math.min(book.length, context - STEPS - 1);
  send({ type: 'loaded', context });
  const shortest = { ...stored, ids: book.slice(0, Math.min(lengths[0], most)) };
  for (const began = performance.now(); performance.now() - began < WARM_UP; ) await run(model, shortest);
  for (const tokens of new Set(lengths.map((length) => Math.min(length, most)))) {
    const ids = book.slice(0, tokens),
      cases: readonly MeasuredCase[] = [
        { ...stored, ids },
        { ...stored, ids, retention: { policy, budget } },
      ];
    for (const measured of cases) {
      const cache = measured.retention ? 'kept' : 'full';
      send({ type: 'begun', device, tokens, cache });
      if (device === 'webgpu') await run(model, measured); // compiles the shaders
      const found = await measure(model, measured, repeats);
      send({ type: 'row', row: { device, tokens, cache, ...found } });
    }
  }
}
