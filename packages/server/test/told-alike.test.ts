import { mkdtempSync, readFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { loadModel } from '@kv/models';
import { expect, test } from 'vitest';
import { NamedConversations } from '../src/run/named-conversations.ts';
import { serve } from './serve.ts';

const chatTemplate = readFileSync(new URL('../../model-testing/fixtures/hermes.jinja', import.meta.url), 'utf8');
/** ChatML of a model that reasons: earlier reasoning is left out, a new answer begins with it. */
const REASONER =
  "{% for m in messages %}<|{{ m.role }}|>{{ m.content.split('</think>')[-1] }}\n{% endfor %}<|assistant|><think>\n";

test('a conversation whose cache holds more than its messages is read again where it would not fit', async () => {
  const model = await loadModel('embedded', { chatTemplate: REASONER }),
    on = await serve({ model, memory: 512 * 2 ** 20 }),
    messages: { role: string; content: string }[] = [],
    { maxPositions } = model.config;
  for (let turn = 0; turn < 4; turn++) {
    messages.push({ role: 'user', content: `And number ${turn}?` });
    // each answer is all reasoning, which no later prompt has
    const { status, json } = await on.post('/v1/chat/completions', {
      ...{ messages, max_tokens: Math.floor(0.4 * maxPositions), temperature: 0 },
      logit_bias: Object.fromEntries(model.config.eosIds.map((id) => [id, -100])),
    });
    expect([status, json.error?.message]).toEqual([200, undefined]);
    expect(json.usage.prompt_tokens).toBeLessThan(maxPositions);
    messages.push({ role: 'assistant', content: '</think>So it is.' });
  }
  await on.server.close();
  model.destroy();
}, 60_000);

test('same prompts of one request draw from different seeds, as its answers do', async () => {
  const on = await serve(),
    prompt = 'The secret',
    ask = async (body: object): Promise<readonly string[]> =>
      (await on.post('/v1/completions', { max_tokens: 12, temperature: 1.5, seed: 5, ...body })).json.choices.map(
        ({ text }: { text: string }) => text,
      );
  const several = await ask({ prompt: [prompt, prompt, prompt] });
  expect(new Set(several).size).toBe(3);
  expect(several).toEqual(await ask({ prompt, n: 3 }));
  expect(await ask({ prompt: [prompt, prompt], n: 2 })).toEqual(await ask({ prompt, n: 4 }));
  await on.server.close();
});

test('every protocol tells notes, and names no stop sequence that the client did not give', async () => {
  const on = await serve({ model: await loadModel('embedded', { chatTemplate }) }),
    user = { role: 'user', content: 'One two three four five six seven eight nine ten.' },
    under = { policy: 'snapkv(window=64)', budget: '5%', kv: { protect: ['tools'] } },
    chat = (await on.post('/v1/chat/completions', { ...under, messages: [user], max_tokens: 8 })).json,
    message = (await on.post('/v1/messages', { model: 'embedded', ...under, messages: [user], max_tokens: 8 })).json,
    response = (await on.post('/v1/responses', { ...under, input: [user], max_output_tokens: 16 })).json;
  expect(chat.kv.notes.length).toBeGreaterThan(0);
  for (const { usage } of [chat, message, response]) expect(usage.kv.notes).toEqual(chat.kv.notes);
  await on.server.close();
  // without a template an answer ends with its line
  const plain = await serve();
  for (const [stop_sequences, stopped] of [
    [[], ['end_turn', null]],
    [['\n'], ['stop_sequence', '\n']],
  ] as const) {
    const { json } = await plain.post('/v1/messages', {
      ...{ model: 'embedded', messages: [user], max_tokens: 400, temperature: 0, stop_sequences },
    });
    expect([json.stop_reason, json.stop_sequence]).toEqual(stopped);
  }
  await plain.server.close();
});

test('ids of responses and of items are not taken for each other', async () => {
  const on = await serve({ model: await loadModel('embedded', { chatTemplate }) }),
    first = (await on.post('/v1/responses', { input: 'One.', max_output_tokens: 16 })).json,
    [item] = first.output;
  const wrong = await on.post('/v1/responses', { previous_response_id: item.id, input: 'Two.' });
  expect([wrong.status, wrong.json.error.param]).toEqual([404, 'previous_response_id']);
  const other = await on.post('/v1/responses', { input: [{ type: 'item_reference', id: first.id }] });
  expect([other.status, other.json.error.param]).toEqual([404, 'input[0].id']);
  await on.server.close();
});

test('a response that is deleted at once stays deleted, with the items of its output', async () => {
  const conversations = { folder: mkdtempSync(join(tmpdir(), 'kv-named-')) },
    on = await serve({ conversations, model: await loadModel('embedded', { chatTemplate }) });
  for (let i = 0; i < 3; i++) {
    const { id, output } = (await on.post('/v1/responses', { input: `Number ${i}.`, max_output_tokens: 16 })).json,
      url = `${on.url}/v1/responses/${id}`;
    expect((await fetch(url, { method: 'DELETE' })).status).toBe(200);
    await new Promise((after) => setTimeout(after, 50));
    expect((await fetch(url)).status).toBe(404);
    const referred = await on.post('/v1/responses', { input: [{ type: 'item_reference', id: output[0].id }] });
    expect(referred.status).toBe(404);
  }
  await on.server.close();
});

test('a server that has closed has given its responses to its store', async () => {
  const held = new Map<string, Uint8Array>(),
    put = async (key: string, bytes: Uint8Array): Promise<void> => {
      // what is stored of a response begins with its id; caches are awaited anyway, and a store has two seconds
      if (Buffer.from(bytes).toString('latin1', 0, 5) === 'resp_')
        await new Promise((after) => setTimeout(after, 1500));
      held.set(key, bytes);
    },
    conversations = { put, delete: async () => {}, get: async (key: string) => held.get(key) },
    first = await serve({ conversations }),
    { id } = (await first.post('/v1/responses', { input: 'One.', max_output_tokens: 4 })).json;
  await first.server.close();
  const second = await serve({ conversations });
  expect((await fetch(`${second.url}/v1/responses/${id}`)).status).toBe(200);
  await second.server.close();
});

test('what is asked of a store of one id happens in its order, however long each takes', async () => {
  const done: string[] = [],
    held = new Map<string, Uint8Array>();
  const slow = (what: string, work: () => void, ms: number) =>
    new Promise<void>((after) =>
      setTimeout(() => {
        done.push(what);
        work();
        after();
      }, ms),
    );
  const store = {
    put: (key: string, bytes: Uint8Array) => slow('put', () => held.set(key, bytes), 30),
    delete: (key: string) => slow('delete', () => held.delete(key), 1),
    get: async (key: string) => held.get(key),
  };
  const named = new NamedConversations<string>(store as never);
  void named.name('a', 'one');
  await named.forget('a');
  expect([done, held.size]).toEqual([['put', 'delete'], 0]);
  await expect(named.named('a')).rejects.toThrow('is not known (any more)');
});
