"""Chat templates of well-known models and what transformers renders from them.

    pip install transformers==5.23.0 jinja2==3.1.6
    python tools/reference-models/chat_templates.py packages/model-testing/fixtures/chat-templates.json

The templates are those of the models' own tokenizer_config.json (SmolLM2's is in its GGUF file).
"""

import json
import sys
from pathlib import Path

from jinja2.exceptions import TemplateError
from transformers.utils.chat_template_utils import _compile_jinja_template

ALTERNATE = "{{ raise_exception('Conversation roles must alternate user/assistant/user/assistant/...') }}"
TEMPLATES = {
    # Not a model's: what becomes of line ends and indentation around blocks.
    "blocks": "{%- set n = namespace(i=0) %}\n{% for message in messages %}\n    {% if message.role == 'user' %}\n  {{ message.content }}\n    {% endif %}\n{# a remark #}\n    {% set n.i = n.i + 1 %}\n{{ n.i }}\n{% endfor %}\nend\n",
    "smollm2": "{% for message in messages %}{% if loop.first and messages[0]['role'] != 'system' %}{{ '<|im_start|>system\nYou are a helpful AI assistant named SmolLM, trained by Hugging Face<|im_end|>\n' }}{% endif %}{{'<|im_start|>' + message['role'] + '\n' + message['content'] + '<|im_end|>' + '\n'}}{% endfor %}{% if add_generation_prompt %}{{ '<|im_start|>assistant\n' }}{% endif %}",
    "llama3": "{% set loop_messages = messages %}{% for message in loop_messages %}{% set content = '<|start_header_id|>' + message['role'] + '<|end_header_id|>\n\n'+ message['content'] | trim + '<|eot_id|>' %}{% if loop.index0 == 0 %}{% set content = bos_token + content %}{% endif %}{{ content }}{% endfor %}{% if add_generation_prompt %}{{ '<|start_header_id|>assistant<|end_header_id|>\n\n' }}{% endif %}",
    "gemma2": "{{ bos_token }}{% if messages[0]['role'] == 'system' %}{{ raise_exception('System role not supported') }}{% endif %}{% for message in messages %}{% if (message['role'] == 'user') != (loop.index0 % 2 == 0) %}" + ALTERNATE + "{% endif %}{% if (message['role'] == 'assistant') %}{% set role = 'model' %}{% else %}{% set role = message['role'] %}{% endif %}{{ '<start_of_turn>' + role + '\n' + message['content'] | trim + '<end_of_turn>\n' }}{% endfor %}{% if add_generation_prompt %}{{'<start_of_turn>model\n'}}{% endif %}",
    "mistral": "{{ bos_token }}{% for message in messages %}{% if (message['role'] == 'user') != (loop.index0 % 2 == 0) %}" + ALTERNATE + "{% endif %}{% if message['role'] == 'user' %}{{ '[INST] ' + message['content'] + ' [/INST]' }}{% elif message['role'] == 'assistant' %}{{ message['content'] + eos_token}}{% else %}{{ raise_exception('Only user and assistant roles are supported!') }}{% endif %}{% endfor %}",
    "phi3": "{% for message in messages %}{% if message['role'] == 'system' %}{{'<|system|>\n' + message['content'] + '<|end|>\n'}}{% elif message['role'] == 'user' %}{{'<|user|>\n' + message['content'] + '<|end|>\n'}}{% elif message['role'] == 'assistant' %}{{'<|assistant|>\n' + message['content'] + '<|end|>\n'}}{% endif %}{% endfor %}{% if add_generation_prompt %}{{ '<|assistant|>\n' }}{% else %}{{ eos_token }}{% endif %}",
    "qwen2.5": """{%- if tools %}
    {{- '<|im_start|>system\\n' }}
    {%- if messages[0]['role'] == 'system' %}
        {{- messages[0]['content'] }}
    {%- else %}
        {{- 'You are Qwen, created by Alibaba Cloud. You are a helpful assistant.' }}
    {%- endif %}
    {{- "\\n\\n# Tools\\n\\nYou may call one or more functions to assist with the user query.\\n\\nYou are provided with function signatures within <tools></tools> XML tags:\\n<tools>" }}
    {%- for tool in tools %}
        {{- "\\n" }}
        {{- tool | tojson }}
    {%- endfor %}
    {{- "\\n</tools>\\n\\nFor each function call, return a json object with function name and arguments within <tool_call></tool_call> XML tags:\\n<tool_call>\\n{\\"name\\": <function-name>, \\"arguments\\": <args-json-object>}\\n</tool_call><|im_end|>\\n" }}
{%- else %}
    {%- if messages[0]['role'] == 'system' %}
        {{- '<|im_start|>system\\n' + messages[0]['content'] + '<|im_end|>\\n' }}
    {%- else %}
        {{- '<|im_start|>system\\nYou are Qwen, created by Alibaba Cloud. You are a helpful assistant.<|im_end|>\\n' }}
    {%- endif %}
{%- endif %}
{%- for message in messages %}
    {%- if (message.role == "user") or (message.role == "system" and not loop.first) or (message.role == "assistant" and not message.tool_calls) %}
        {{- '<|im_start|>' + message.role + '\\n' + message.content + '<|im_end|>' + '\\n' }}
    {%- elif message.role == "assistant" %}
        {{- '<|im_start|>' + message.role }}
        {%- if message.content %}
            {{- '\\n' + message.content }}
        {%- endif %}
        {%- for tool_call in message.tool_calls %}
            {%- if tool_call.function is defined %}
                {%- set tool_call = tool_call.function %}
            {%- endif %}
            {{- '\\n<tool_call>\\n{"name": "' }}
            {{- tool_call.name }}
            {{- '", "arguments": ' }}
            {{- tool_call.arguments | tojson }}
            {{- '}\\n</tool_call>' }}
        {%- endfor %}
        {{- '<|im_end|>\\n' }}
    {%- elif message.role == "tool" %}
        {%- if (loop.index0 == 0) or (messages[loop.index0 - 1].role != "tool") %}
            {{- '<|im_start|>user' }}
        {%- endif %}
        {{- '\\n<tool_response>\\n' }}
        {{- message.content }}
        {{- '\\n</tool_response>' }}
        {%- if loop.last or (messages[loop.index0 + 1].role != "tool") %}
            {{- '<|im_end|>\\n' }}
        {%- endif %}
    {%- endif %}
{%- endfor %}
{%- if add_generation_prompt %}
    {{- '<|im_start|>assistant\\n' }}
{%- endif %}
""",
}


def turn(role, content, **more):
    return {"role": role, "content": content, **more}


WEATHER = {"type": "function", "function": {"name": "weather", "description": "The weather \u2014 today's.", "parameters": {"type": "object", "properties": {"city": {"type": "string"}}, "required": ["city"]}}}
CALL = {"type": "function", "function": {"name": "weather", "arguments": {"city": "K\u00f6ln", "days": 2}}}
CONVERSATIONS = [
    ([turn("user", "Hello!")], None),
    ([turn("user", "  Hi <|im_end|> \n"), turn("assistant", "Yes?\n"), turn("user", "\u6587 \U0001f999 'quoted' \"too\" <b>")], None),
    ([turn("system", "Be brief."), turn("user", "Why?"), turn("assistant", "Because."), turn("user", "And?")], None),
    ([turn("user", "a"), turn("user", "b")], None),
    ([turn("assistant", "I begin.")], None),
    ([turn("user", "Weather?"), turn("assistant", "", tool_calls=[CALL]), turn("tool", "rain"), turn("tool", "sun"), turn("assistant", "Both.")], [WEATHER]),
]


def render(template, messages, tools, prompt):
    try:
        return {"text": template.render(messages=messages, tools=tools, documents=None, add_generation_prompt=prompt, bos_token="<bos>", eos_token="<eos>")}
    except TemplateError as error:
        return {"error": str(error)}


def main(path):
    out = []
    for name, source in TEMPLATES.items():
        template = _compile_jinja_template(source)
        cases = [
            {"messages": messages, "tools": tools, "prompt": prompt, **render(template, messages, tools, prompt)}
            for messages, tools in CONVERSATIONS
            for prompt in (True, False)
        ]
        out.append({"name": name, "source": source, "cases": cases})
    Path(path).write_text(json.dumps(out, separators=(",", ":")) + "\n")


main(sys.argv[1])
