import { createHash } from 'node:crypto';
import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { KvError } from '@kv/core';
import { afterAll, beforeAll, describe, expect, test, vi } from 'vitest';
import { chatTemplate, type ChatMessage } from '../src/chat/chat-template.ts';
import { fixtureJson } from '@kv/model-testing/fixture';

/** Renderings by transformers of llama.cpp's collection: tools/reference-models/public_templates.py. */
const reference = fixtureJson<{
  readonly now: string;
  readonly tools: readonly unknown[];
  readonly conversations: readonly (readonly ChatMessage[])[];
  readonly digests: Readonly<Record<string, string>>;
}>('public-templates.json');
const folder = process.env.KV_TEMPLATES;
const DIGEST = 8;

beforeAll(() => {
  vi.useFakeTimers({ now: new Date(reference.now), toFake: ['Date'] });
});
afterAll(() => {
  vi.useRealTimers();
});

// The templates are under their makers' licences and not in this repository; the script fetches them.
describe.skipIf(folder === undefined)('every public template renders what Jinja2 renders', () => {
  test.each(Object.entries(reference.digests))('%s', (name, digests) => {
    const template = chatTemplate(readFileSync(join(folder!, name), 'utf8'), name);
    const { conversations, tools } = reference;
    const different: string[] = [];
    let at = 0;
    for (const [i, messages] of conversations.entries())
      for (const given of [undefined, tools])
        for (const addGenerationPrompt of [false, true]) {
          const expected = digests.slice(at, (at += DIGEST));
          const options = { addGenerationPrompt, bosToken: '<bos>', eosToken: '<eos>', ...(given && { tools: given }) };
          const got = digest(() => template(messages, options));
          if (got !== expected)
            different.push(`conversation ${i}${given ? ' with tools' : ''}: ${got} for ${expected}`);
        }
    expect(different).toEqual([]);
  });
});

function digest(render: () => string): string {
  try {
    return createHash('sha256').update(render()).digest('hex').slice(0, DIGEST);
  } catch (error) {
    if (!KvError.is(error)) throw error;
    return '-'.repeat(DIGEST);
  }
}
