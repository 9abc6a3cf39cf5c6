"""What transformers renders of the chat templates that llama.cpp carries (models/templates), as digests.

    pip install transformers==5.24.0 jinja2==3.1.6
    pip download --no-deps --no-binary :all: llama-cpp-python==0.3.36
    python tools/reference-models/public_templates.py llama_cpp_python-0.3.36.tar.gz .kv/templates packages/model-testing/fixtures/public-templates.json

Takes the templates out of the archive into the folder (they are the model makers', under licences of their own, so none
is committed) and writes, for each, eight hexadecimal digits of the SHA-256 of every rendering, `--------` where
transformers' environment refuses: 28 conversations, each without and with tools, each without and with a generation
prompt. `KV_TEMPLATES=.kv/templates npx vitest run packages/checkpoints/test/public-templates.test.ts` compares. With a fourth
argument, a file for the whole renderings and refusals.
"""

import hashlib
import json
import sys
import tarfile
from datetime import datetime
from pathlib import Path

import transformers.utils.chat_template_utils as utils


class Frozen(datetime):
    @classmethod
    def now(cls, tz=None):
        return cls(2026, 7, 4, 9, 5, 3)


utils.datetime = Frozen

USER = {"role": "user", "content": "Hello!"}
SYSTEM = {"role": "system", "content": "Be brief."}
ANSWER = {"role": "assistant", "content": "Hi, what can I do?"}


def call(arguments, name="weather", **more):
    return {**more, "type": "function", "function": {"name": name, "arguments": arguments}}


def calls(*made, content="", **more):
    return {"role": "assistant", "content": content, "tool_calls": list(made), **more}


def result(content, **more):
    return {"role": "tool", "content": content, **more}


RAIN = result('{"degrees": 21.5, "sky": "rain"}', tool_call_id="abc123def", name="weather")
CALL = call({"city": "Paris", "days": 2}, id="abc123def")
TEXT_CALL = call('{"city": "Paris", "days": 2}', id="abc123def")

CONVERSATIONS = [
    [USER],
    [SYSTEM, USER],
    [USER, ANSWER],
    [SYSTEM, USER, ANSWER, {"role": "user", "content": "And now?"}],
    [USER, ANSWER, {"role": "user", "content": "  spaces \n\n around \t"}, {"role": "assistant", "content": "\n ok \n"}],
    [{"role": "user", "content": "\"quoted\" 'single' <b>&amp; {{ braces }} \\ back\u2028line \u00e9\u4e16\U0001f436"}],
    [{"role": "user", "content": ""}, {"role": "assistant", "content": ""}],
    [SYSTEM],
    [],
    [USER, USER],
    [ANSWER, USER],
    [{"role": "developer", "content": "Answer in French."}, USER],
    [SYSTEM, SYSTEM, USER],
    [{"role": "user", "content": [{"type": "text", "text": "Part one, "}, {"type": "text", "text": "part two."}]}],
    [{"role": "system", "content": [{"type": "text", "text": "Be kind."}]}, USER],
    [{"role": "user", "content": [{"type": "image"}, {"type": "text", "text": "What is it?"}]}],
    [USER, calls(CALL), RAIN],
    [USER, calls(CALL), RAIN, {"role": "assistant", "content": "It rains at 21.5 degrees."}, {"role": "user", "content": "Thanks."}],
    [USER, calls(TEXT_CALL), RAIN],
    [SYSTEM, USER, calls(CALL, call({}, name="clock", id="zzzzzzzz9"), content="Let me look."), RAIN, result("12:30", tool_call_id="zzzzzzzz9", name="clock")],
    [USER, calls(call({"a": [1, 2.5, True, None, {"b": "c"}], "s": "\u00e9\"\n"}, name="deep", id="abcdefghi")), result("done", tool_call_id="abcdefghi", name="deep")],
    [USER, {"role": "assistant", "content": None, "tool_calls": [CALL]}, RAIN],
    [USER, {"role": "assistant", "content": "<think>\nhm\n</think>\n\nAnswer."}, {"role": "user", "content": "More"}],
    [USER, {"role": "assistant", "reasoning_content": "I think.", "content": "Answer."}, {"role": "user", "content": "More"}],
    [USER, calls(CALL, reasoning_content="I look it up."), RAIN],
    [{"role": "user", "name": "Ann", "content": "Hello"}, {"role": "assistant", "name": "Bot", "content": "Hi"}],
    [{"role": "critic", "content": "No known role."}],
    [USER, {"role": "assistant", "content": "I", "thinking": "why"}, {"role": "tool", "content": [{"type": "text", "text": "a part"}]}],
]
TOOLS = [
    {
        "type": "function",
        "function": {
            "name": "weather",
            "description": "The weather of a \"city\".\nToday & later.",
            "parameters": {
                "type": "object",
                "properties": {
                    "city": {"type": "string", "description": "Its name, <like> Z\u00fcrich"},
                    "days": {"type": "integer", "minimum": 1, "default": 1},
                    "unit": {"type": "string", "enum": ["C", "F"]},
                    "tags": {"type": "array", "items": {"type": "string"}},
                    "where": {"type": ["object", "null"], "properties": {"lat": {"type": "number", "multipleOf": 0.5}}},
                },
                "required": ["city"],
            },
        },
    },
    {"type": "function", "function": {"name": "clock", "description": "The time.", "parameters": {"type": "object", "properties": {}}}},
]


def render(template, messages, tools, prompt):
    return template.render(messages=json.loads(json.dumps(messages)), tools=json.loads(json.dumps(tools)), documents=None, add_generation_prompt=prompt, bos_token="<bos>", eos_token="<eos>")


def extract(archive, folder):
    folder.mkdir(parents=True, exist_ok=True)
    with tarfile.open(archive) as files:
        for member in files:
            path = Path(member.name)
            if path.suffix == ".jinja" and path.parent.name == "templates":
                (folder / path.name).write_bytes(files.extractfile(member).read())


def main(archive, folder, digests, whole=None):
    folder = Path(folder)
    extract(archive, folder)
    cases = [(m, t, p) for m in CONVERSATIONS for t in (None, TOOLS) for p in (False, True)]
    made, texts = {}, {}
    for path in sorted(folder.glob("*.jinja")):
        texts[path.name] = []
        for case in cases:
            try:
                text = render(utils._compile_jinja_template(path.read_text()), *case)
                texts[path.name].append({"text": text})
            except Exception as error:  # whatever Jinja2 or the template refuses it by
                texts[path.name].append({"error": f"{type(error).__name__}: {error}"[:300]})
        made[path.name] = "".join(hashlib.sha256(one["text"].encode()).hexdigest()[:8] if "text" in one else "-" * 8 for one in texts[path.name])
    head = {"now": "2026-07-04T09:05:03", "tools": TOOLS, "conversations": CONVERSATIONS, "digests": made}
    Path(digests).write_text(json.dumps(head, ensure_ascii=False, indent=1) + "\n")
    if whole:
        Path(whole).write_text(json.dumps(texts, ensure_ascii=False))
    refused = sum("error" in one for all in texts.values() for one in all)
    print(f"{len(made)} templates, {len(made) * len(cases)} renderings, {refused} refused")


if __name__ == "__main__":
    main(*sys.argv[1:])
