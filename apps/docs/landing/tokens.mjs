/** Prints the conversation's tokens as texts, with what is asked and what must be answered. */
import { loadModel } from '@kv/models';
import { conversation, fact, question } from './conversation.mjs';

const { offsets } = (await loadModel('embedded')).tokenizer.encode(conversation);
const tokens = offsets.map(([start, end]) => conversation.slice(start, end));
console.log(JSON.stringify({ fact, question, tokens }));
