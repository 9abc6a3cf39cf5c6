import fc from 'fast-check';
import { describe, expect, test } from 'vitest';
import type { ConversationStore } from '../src/index.ts';
import { SteadyStore, unlessAway } from '../src/run/steady-store.ts';
import { serve } from './serve.ts';

const ask = { max_tokens: 4, temperature: 0 };
const said = [{ role: 'user', content: 'The boys walked to' }];

/** A store that does what `does` says at each call. */
const store = (does: () => Promise<unknown>): ConversationStore => ({
  shared: true,
  get: async () => (await does()) as undefined,
  put: async () => void (await does()),
  delete: async () => void (await does()),
});

describe('a store that is gone', () => {
  test.each([
    ['fails', () => Promise.reject(new Error('gone'))],
    ['never answers', () => new Promise(() => {})],
  ])('%s: every answer comes, and the log has one line of it', async (_, does) => {
    const on = await serve({ conversations: store(does) }),
      messages: unknown[] = [...said];
    for (let turn = 0; turn < 3; turn++) {
      const { status, json } = await on.post('/v1/chat/completions', { ...ask, messages });
      expect(status).toBe(200);
      if (turn > 0) expect(json.usage.prompt_tokens_details.cached_tokens).toBeGreaterThan(0); // from memory
      messages.push(json.choices[0].message, ...said);
    }
    const { conversations } = await (await fetch(`${on.url}/status`)).json();
    expect(conversations.failed).toBeGreaterThanOrEqual(3);
    await on.server.close();
    expect(on.lines.filter(({ msg }) => msg === 'a stored conversation could not be used')).toHaveLength(1);
  });

  test('is asked again after its rest, and each time that it goes is told once', async () => {
    await fc.assert(
      fc.asyncProperty(fc.array(fc.boolean(), { minLength: 1, maxLength: 12 }), async (works) => {
        let now = true,
          asked = 0;
        const told: unknown[] = [],
          tell = unlessAway((cause) => told.push(cause)),
          steady = new SteadyStore(
            store(async () => {
              asked++;
              if (!now) throw new Error('gone');
            }),
            { rest: 0 },
          );
        for (now of works) await steady.get('x').catch(tell);
        expect(asked).toBe(works.length);
        expect(told).toHaveLength(works.filter((each, i) => !each && works[i - 1] !== false).length);
      }),
    );
    let asked = 0;
    const resting = new SteadyStore(
      store(async () => {
        asked++;
        throw new Error('gone');
      }),
    );
    for (let i = 0; i < 5; i++) await expect(resting.put('x', new Uint8Array(1))).rejects.toThrow();
    expect(asked).toBe(1);
  });
});

describe('a store that several servers share', () => {
  test('has a conversation before its answer ends, and a folder is not waited for', async () => {
    for (const shared of [true, false]) {
      let open = (): void => {};
      const gate = new Promise<void>((resolve) => (open = resolve)),
        on = await serve({ conversations: { ...store(async () => {}), shared, put: () => gate } });
      let ended = false;
      const answer = on.post('/v1/chat/completions', { ...ask, messages: said }).then((came) => {
        ended = true;
        return came;
      });
      if (!shared) await answer;
      else await new Promise((resolve) => setTimeout(resolve, 300));
      expect(ended).toBe(!shared);
      open();
      expect((await answer).status).toBe(200);
      await on.server.close();
    }
  });
});
