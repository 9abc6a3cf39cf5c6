import { KvError } from '@kv/core';
import { expect, test } from 'vitest';
import { chatTemplate, type ChatMessage } from '../src/chat/chat-template.ts';
import { fixtureJson } from '@kv/model-testing/fixture';

/** Small random templates with Jinja2's rendering of each: tools/reference-models/random_templates.py. */
const { values, cases } = fixtureJson<{
  readonly values: Readonly<Record<string, unknown>>;
  readonly cases: readonly (readonly [source: string, text: string | null])[];
}>('random-templates.json');
const names = Object.keys(values)
  .map((name) => `{% set ${name} = messages[0]['${name}'] %}`)
  .join('');

function rendered(source: string): string | null {
  try {
    return chatTemplate(names + source, 't')([values as ChatMessage]);
  } catch (error) {
    if (!KvError.is(error)) throw error;
    return null;
  }
}

test('random templates render what Jinja2 renders, and are refused where it refuses', () => {
  const different = cases.filter(([source, text]) => rendered(source) !== text);
  expect(different.map(([source, text]) => ({ source, text, got: rendered(source) }))).toEqual([]);
  expect(cases.filter(([, text]) => text !== null).length).toBeGreaterThan(cases.length / 3);
});
