import { generate, loadModel } from '@kv/models';

const walk = 'The boys walked on in silence. '.repeat(30);
const river = 'The river was wide. '.repeat(30);
const prompt = `${walk}The secret code is: XK7M9P2Q. ${river}The secret code is:`;

const model = await loadModel('embedded'); // or a GGUF file, or the folder of a checkpoint
for (const policy of ['streaming', 'snapkv(window=16,kernel=17,pooling=max) | caote | topK']) {
  const { text } = await generate(model, { prompt, policy, budget: 64, maxNewTokens: 12, stop: ['.'] });
  console.log(`${text.trim()} under ${policy}`);
}

// prints:
// XXXXXXXX under streaming
// XK7M9P2Q under snapkv(window=16,kernel=17,pooling=max) | caote | topK
