import { compose } from '@kv/core';
import { generate, loadModel } from '@kv/models';
import { snapkv } from '@kv/scorers-attention';
import { caote } from '@kv/scorers-caote';
import { topK } from '@kv/selectors-top-k';

const walk = 'The boys walked on in silence. '.repeat(30);
const river = 'The river was wide. '.repeat(30);
const prompt = `${walk}The secret code is: XK7M9P2Q. ${river}The secret code is:`;

const policy = compose(snapkv({ window: 16, kernel: 17, pooling: 'max' }), caote(), topK());
const model = await loadModel('embedded');
const { text, report } = await generate(model, { prompt, policy, budget: 64, maxNewTokens: 12, stop: ['.'] });

console.log(`answer: ${text.trim()}`);
const kept = Math.max(...report.kept.flat().map((slots) => slots.length));
console.log(`kept ${kept} of ${model.tokenizer.encode(prompt).ids.length} tokens by ${report.policy}`);
