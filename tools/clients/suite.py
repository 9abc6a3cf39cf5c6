"""What the official Python client gets of a running server; see suite.mjs."""

import json
import os
import sys
import traceback

from openai import BadRequestError, NotFoundError, OpenAI

client = OpenAI(base_url=os.environ["KV_URL"] + "/v1", api_key="any", max_retries=0)
model = os.environ["KV_MODEL"]
user = {"role": "user", "content": "What is the weather in Paris?"}
parameters = {
    "type": "object",
    "properties": {"city": {"type": "string", "enum": ["Paris", "Rome"]}},
    "required": ["city"],
    "additionalProperties": False,
}


def chat_with_its_own_answer():
    first = client.chat.completions.create(model=model, messages=[user], max_tokens=12, temperature=0)
    again = [user, first.choices[0].message.model_dump(), {"role": "user", "content": "And tomorrow?"}]
    second = client.chat.completions.create(model=model, messages=again, max_tokens=12)
    assert second.usage.prompt_tokens > first.usage.prompt_tokens


def stream():
    whole = client.chat.completions.create(model=model, messages=[user], max_tokens=12, temperature=0)
    parts = client.chat.completions.create(model=model, messages=[user], max_tokens=12, temperature=0, stream=True)
    text = "".join(part.choices[0].delta.content or "" for part in parts if part.choices)
    assert text == whole.choices[0].message.content


def tools_in_a_loop():
    tools = [{"type": "function", "function": {"name": "weather", "parameters": parameters}}]
    first = client.chat.completions.create(
        model=model, messages=[user], tools=tools, tool_choice="required", parallel_tool_calls=False, max_tokens=60
    )
    message = first.choices[0].message
    call = message.tool_calls[0]
    assert json.loads(call.function.arguments)["city"] in ("Paris", "Rome")
    result = {"role": "tool", "tool_call_id": call.id, "content": "Sunny."}
    client.chat.completions.create(
        model=model, messages=[user, message.model_dump(), result], tools=tools, max_tokens=12
    )


def objects():
    form = {"type": "json_schema", "json_schema": {"name": "place", "schema": parameters, "strict": True}}
    answer = client.chat.completions.create(model=model, messages=[user], response_format=form, max_tokens=60)
    assert json.loads(answer.choices[0].message.content)["city"] in ("Paris", "Rome")


def responses():
    first = client.responses.create(model=model, input=user["content"], max_output_tokens=12)
    client.responses.create(model=model, input="And tomorrow?", previous_response_id=first.id, max_output_tokens=12)
    events = client.responses.create(model=model, input=user["content"], max_output_tokens=12, stream=True)
    assert [event.type for event in events][-1] in ("response.completed", "response.incomplete")


def errors():
    for kind, body in (
        (BadRequestError, {"temperature": 9}),
        (NotFoundError, {"model": "gpt-9"}),
    ):
        try:
            client.chat.completions.create(**{"model": model, "messages": [user], "max_tokens": 1, **body})
        except kind as error:
            assert error.request_id.startswith("req_")
        else:
            raise AssertionError(f"expected {kind.__name__}")


passed = failed = 0
for test in (chat_with_its_own_answer, stream, tools_in_a_loop, objects, responses, errors):
    try:
        test()
        print(f" ok  openai (Python): {test.__name__}")
        passed += 1
    except Exception:
        print(f"FAIL openai (Python): {test.__name__}")
        traceback.print_exc(file=sys.stdout)
        failed += 1
print(f"{passed} passed, {failed} failed")
