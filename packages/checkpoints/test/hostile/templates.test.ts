import { expect, test } from 'vitest';
import { chatTemplate } from '../../src/chat/chat-template.ts';

// each of these took minutes to hours, or would have, where a scan began again at every place
test.each<readonly [name: string, source: string, outcome: RegExp]>([
  ['zeros without a letter after a %', "{{ ('%' ~ '0' * 2000000) % 1 }}", /^%0{2000000}$|not all arguments/],
  ['brackets that nothing closes', `{{ ${'x is eq ['.repeat(25_000)}`, /cannot be rendered/],
  ['raw blocks without an end', '{%raw%}'.repeat(35_000), /cannot be rendered/],
  [
    'characters of a text with pairs, one after the other',
    "{% set c = '🙂' * 1000000 %}{% for i in range(25000) %}{% set d = c[i] %}{% endfor %}{{ c[7] }}",
    /^🙂$/u,
  ],
  [
    'the length of a long text, again and again',
    "{% set c = '漢' * 1000000 %}{% for i in range(20000) %}{% set d = c | length %}{% endfor %}{{ c | length }}",
    /^1000000$/,
  ],
  [
    'long texts that are compared',
    "{% set c = 'a' * 1000000 %}{% set d = 'a' * 1000000 %}{% for i in range(20000) %}{% set e = c == d %}{% endfor %}",
    /work on more than/,
  ],
])('%s: a text or a sentence, soon', (_, source, outcome) => {
  let text: string;
  try {
    text = chatTemplate(source, 't')([{ role: 'user', content: 'hi' }]);
  } catch (error) {
    text = (error as Error).message;
  }
  expect(text.slice(0, 3_000_000)).toMatch(outcome);
});

test('raw blocks, those within others, and one without an end after them', () => {
  const render = (source: string): string => chatTemplate(source, 't')([]);
  expect(render('a{% raw %}{{ b }}{% raw %}{% endraw %}c{%- raw -%} {{ d }} {%- endraw -%} e')).toBe(
    'a{{ b }}{% raw %}c{{ d }}e',
  );
  expect(() => render('{% raw %}a{% endraw %}{% raw %}b')).toThrow('cannot be rendered');
});
