/** A page that asks the embedded model under a policy. Everything runs in the page; nothing is sent anywhere. */
import { generate, loadModel } from '@kv/models';
import { parsePolicy } from '@kv/policies';

const form = document.querySelector('form');
const output = document.querySelector('output');
const prompt = `${'The boys walked on in silence. '.repeat(12)}The secret code is: XK7M9P2Q. ${'The river was wide. '.repeat(12)}The secret code is:`;
const model = await loadModel(new URL('.', location.href).href); // config.json, tokenizer.json ... beside the page

async function ask(event) {
  event?.preventDefault();
  try {
    const policy = parsePolicy(form.policy.value);
    const { text, report } = await generate(model, {
      prompt,
      policy,
      budget: Number(form.budget.value),
      maxNewTokens: 12,
      stop: ['.'],
    });
    const kept = Math.max(...report.kept.flat().map((slots) => slots.length));
    output.textContent = `${text.trim()}, with ${kept} slots a head kept by ${report.policy}`;
  } catch (error) {
    output.textContent = error.message;
  }
}
form.addEventListener('submit', ask);
await ask();
