import Type from 'typebox';
import { closed, common, count, flag, LIMITS, only } from '../../protocol/schema.ts';

const ids = Type.Array(count(0, 'a token id'), { minItems: 1, description: 'token ids' });

/** `POST /v1/completions`. */
export const completionRequest = Type.Object(
  {
    ...common,
    prompt: Type.Union(
      [
        Type.String(),
        Type.Array(Type.String(), { minItems: 1, maxItems: LIMITS.prompts }),
        ids,
        Type.Array(ids, { minItems: 1, maxItems: LIMITS.prompts }),
      ],
      { description: `a text, token ids, or up to ${LIMITS.prompts} of either` },
    ),
    tools: only([[]], 'functions are called in chats'),
    tool_choice: only(['none', 'auto'], 'functions are called in chats'),
    parallel_tool_calls: flag,
    response_format: only([{ type: 'text' }], 'answers are constrained in chats'),
    echo: flag,
    logprobs: Type.Optional(count(0, 'a whole number from 0 to 20', 20)),
    best_of: Type.Optional(count(1, `a whole number of choices from 1 to ${LIMITS.choices}`, LIMITS.choices)),
    suffix: only([''], 'answers do not go before a text'),
    reasoning_effort: only(['none'], 'a text is continued as it is'),
  },
  closed,
);
