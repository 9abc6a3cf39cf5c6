/** A policy as a package, ready to publish: the folder policy-package. Its name stands in policy text like those of kv. */
import { registry } from '@kv/core';
import { generate, loadModel } from '@kv/models';
import { catalogue, parsePolicy } from '@kv/policies';
import * as bookends from './policy-package/index.js';

const known = registry({ 'kv-bookends': bookends }, catalogue); // `kv` does this with what is installed
const model = await loadModel('embedded');
const prompt = `${'The boys walked on in silence. '.repeat(12)}The secret code is: XK7M9P2Q. ${'The river was wide. '.repeat(12)}The secret code is:`;
for (const text of ['bookends', 'bookends(window=8,sinks=1)', 'streaming']) {
  const { text: answer, report } = await generate(model, {
    prompt,
    policy: parsePolicy(text, known),
    budget: 48,
    maxNewTokens: 12,
    stop: ['.'],
  });
  console.log(`${text}: ${answer.trim()}, by ${report.policy}`);
}

// prints:
// bookends: XK7M9P2Q, by snapkv(window=16,kernel=17,pooling=max) ∘ mandatory ∘ topK
// bookends(window=8,sinks=1): XK7M9P2Q, by snapkv(window=8,kernel=17,pooling=max) ∘ mandatory(sinks=1) ∘ topK
// streaming: XXXXX, by streaming ∘ topK
