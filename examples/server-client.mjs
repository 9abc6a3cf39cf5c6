/** A client of `kv serve`, by the OpenAI protocol: one request under the server's policy, one under its own. */
import { loadModel } from '@kv/models';
import { catalogue } from '@kv/policies';
import { createServer } from '@kv/server';

const server = createServer({
  model: await loadModel('embedded'),
  name: 'embedded',
  memory: 256 * 2 ** 20,
  policy: 'snapkv(window=16,kernel=17,pooling=max) | caote | topK',
  budget: 48,
  registry: catalogue,
  log: { write: () => {} },
});
const address = await server.listen({ port: 0 });

const prompt = `${'The boys walked on in silence. '.repeat(12)}The secret code is: XK7M9P2Q. ${'The river was wide. '.repeat(12)}The secret code is:`;
for (const own of [{}, { policy: 'streaming', budget: 48 }]) {
  const response = await fetch(`${address}/v1/completions`, {
    method: 'POST',
    headers: { 'content-type': 'application/json' },
    body: JSON.stringify({ model: 'embedded', prompt, max_tokens: 12, temperature: 0, stop: '.', ...own }),
  });
  const { choices, kv } = await response.json();
  console.log(`${kv.policy}: ${choices[0].text.trim()}`);
}
await server.close();

// prints:
// snapkv(window=16,kernel=17,pooling=max) ∘ caote ∘ topK: XK7M9P2Q
// streaming ∘ topK: XXXXX
