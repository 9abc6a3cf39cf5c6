import type { FinishReason } from '../run/answer-event.ts';
import type { Usage } from '../run/job.ts';
import type { ScoredToken } from './logprobs.ts';
import type { Answer } from './protocol.ts';

/** A call of a function. */
export interface GatheredCall {
  readonly id: string;
  readonly name: string;
  /** JSON text of an object. */
  arguments: string;
}

/** A whole choice. */
export interface GatheredChoice {
  text: string;
  reasoning: string;
  readonly calls: GatheredCall[];
  readonly scored: ScoredToken[];
  finish: FinishReason;
}

/** Gathers the events of an answer. @throws Refusal where a job failed */
export async function gather(
  answer: Answer,
): Promise<{ readonly choices: readonly GatheredChoice[]; readonly usage: Usage }> {
  let usage: Usage | undefined;
  const choices = Array.from(
    { length: answer.choices },
    (): GatheredChoice => ({ text: '', reasoning: '', calls: [], scored: [], finish: 'stop' }),
  );
  for await (const event of answer.events) {
    if (event.what === 'usage') {
      usage = event.usage;
      continue;
    }
    const choice = choices[event.choice];
    choice.scored.push(...(event.scored ?? []));
    if (event.what === 'text') choice.text += event.text;
    else if (event.what === 'reasoning') choice.reasoning += event.text;
    else if (event.what === 'call') choice.calls.push({ id: event.id, name: event.name, arguments: '' });
    else if (event.what === 'arguments') choice.calls[event.call].arguments += event.text;
    else if (event.what === 'end') choice.finish = event.finish;
  }
  return { choices, usage: usage! }; // it is the last event
}
