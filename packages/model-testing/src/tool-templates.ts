import { readFileSync } from 'node:fs';
import { fixture } from './fixture.ts';

/** A chat template that writes calls: its source, and what an answer ends with. */
export interface ToolTemplate {
  readonly source: string;
  readonly end: string;
}

const turns = (
  { user = '<|user|>', assistant = '<|assistant|>', result = '<|tool|>' },
  {
    calls,
    end,
    tools = '{{ tools | tojson }}',
    thinking = '',
  }: { calls: string; end: string; tools?: string; thinking?: string },
): ToolTemplate => ({
  source:
    `{% if tools %}${tools}{% endif %}` +
    `{% for message in messages %}{% if message.role == 'assistant' %}${assistant}${thinking}{{ message.content }}` +
    `{% if message.tool_calls %}${calls}{% endif %}${end}` +
    `{% elif message.role == 'tool' %}${result}{{ message.content }}${end}` +
    `{% else %}${user}{{ message.content }}${end}{% endif %}{% endfor %}` +
    `{% if add_generation_prompt %}${assistant}${thinking && '<think>'}{% endif %}`,
  end,
});

const each = (body: string, between = ''): string =>
  `{% for call in message.tool_calls %}${between && `{% if not loop.first %}${between}{% endif %}`}` +
  `{% set f = call.function %}${body}{% endfor %}`;

const XML =
  '<tool_call>\n<function={{ f.name }}>\n{% for name, value in f.arguments.items() %}<parameter={{ name }}>\n' +
  '{{ value if value is string else value | tojson }}\n</parameter>\n{% endfor %}</function>\n</tool_call>';

/** Gemma 4's values, without the order of their names. */
const GEMMA =
  '{% macro value(one) %}{% if one is string %}<|"|>{{ one }}<|"|>{% elif one is mapping %}{{ "{" }}{% for k, v in one.items() %}' +
  '{% if not loop.first %},{% endif %}{{ k }}:{{ value(v) }}{% endfor %}{{ "}" }}{% elif one is sequence %}[{% for v in one %}' +
  '{% if not loop.first %},{% endif %}{{ value(v) }}{% endfor %}]{% elif one is boolean %}{{ one | tojson }}{% else %}{{ one }}{% endif %}{% endmacro %}';

/** Templates of the shape of each format's, by the format's name. */
export const TOOL_TEMPLATES: Readonly<Record<string, ToolTemplate>> = {
  hermes: { source: readFileSync(fixture('hermes.jinja'), 'utf8'), end: '<|im_end|>\n' },
  'qwen3-coder': turns({}, { calls: each(XML, '\n'), end: '<|im_end|>', thinking: '<think>\n</think>\n\n' }),
  llama3: turns(
    { assistant: "{{ '<|assistant|>\\n\\n' }}" },
    {
      calls:
        "{% if message.tool_calls | length > 1 %}{{ raise_exception('one call at once') }}{% endif %}" +
        each('{"name": "{{ f.name }}", "parameters": {{ f.arguments | tojson }}}'),
      end: '<|eot_id|>',
    },
  ),
  mistral: turns(
    {},
    {
      calls: `[TOOL_CALLS][${each('{% if call.id | length != 9 %}{{ raise_exception("an id of 9") }}{% endif %}{"name": "{{ f.name }}", "arguments": {{ f.arguments | tojson }}, "id": "{{ call.id }}"}', ', ')}]`,
      end: '</s>',
    },
  ),
  'mistral-names': turns(
    {},
    {
      calls: each('[TOOL_CALLS]{{ f.name }}[ARGS]{{ f.arguments if f.arguments is string else f.arguments | tojson }}'),
      end: '</s>',
    },
  ),
  'mistral-ids': turns(
    {},
    { calls: each('[TOOL_CALLS]{{ f.name }}[CALL_ID]{{ call.id }}[ARGS]{{ f.arguments | tojson }}'), end: '</s>' },
  ),
  gemma4: turns(
    {},
    { calls: GEMMA + each('<|tool_call>call:{{ f.name }}{{ value(f.arguments) }}<tool_call|>'), end: '<turn|>' },
  ),
  lfm2: turns(
    {},
    { calls: '', end: '<|im_end|>', tools: 'List of tools: <|tool_list_start|>{{ tools | tojson }}<|tool_list_end|>' },
  ),
  granite3: turns(
    {},
    {
      calls: '',
      end: '<|end_of_text|>',
      tools: 'respond only with <|tool_call|> followed by a JSON list of tools used.{{ tools | tojson }}',
    },
  ),
  harmony: {
    source:
      '{% for message in messages %}{% if message.tool_calls %}{% set f = message.tool_calls[0].function %}' +
      '{% if message.thinking %}<|start|>assistant<|channel|>analysis<|message|>{{ message.thinking }}<|end|>{% endif %}' +
      '<|start|>assistant to=functions.{{ f.name }}<|channel|>commentary json<|message|>{{ f.arguments | tojson }}<|call|>' +
      "{% elif message.role == 'tool' %}<|start|>functions.{{ message.name }} to=assistant<|channel|>commentary<|message|>{{ message.content | tojson }}<|end|>" +
      "{% else %}<|start|>{{ message.role }}{% if message.role == 'assistant' %}<|channel|>final{% endif %}<|message|>{{ message.content }}<|end|>{% endif %}{% endfor %}" +
      '{% if add_generation_prompt %}<|start|>assistant{% endif %}',
    end: '<|call|>',
  },
};
