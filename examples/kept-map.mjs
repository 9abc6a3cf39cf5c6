/** Draws which tokens two policies keep of one text, as SVG: `node examples/kept-map.mjs > kept.svg`. */
import { generate, loadModel } from '@kv/models';

const prompt = `${'The boys walked on in silence. '.repeat(12)}The secret code is: XK7M9P2Q. ${'The river was wide. '.repeat(12)}The secret code is:`;
const policies = ['streaming', 'snapkv(window=16,kernel=17,pooling=max) | topK'];
const [cell, high, left, line] = [2.5, 26, 8, 20];

const model = await loadModel('embedded');
const { ids, offsets } = model.tokenizer.encode(prompt);
const from = prompt.indexOf('XK7M9P2Q');
const isSecret = offsets.map(([start, end]) => start < from + 8 && end > from);
const shapes = [];
for (const [row, text] of policies.entries()) {
  const { text: answer, report } = await generate(model, {
    prompt,
    policy: text,
    budget: 48,
    maxNewTokens: 12,
    stop: ['.'],
  });
  const rows = report.kept.flat();
  const share = ids.map((_, i) => rows.filter((kept) => kept.includes(i)).length / rows.length);
  const top = line + row * (high + 2 * line);
  shapes.push(
    `<text x="${left}" y="${top - 6}">${report.policy}, 48 of ${ids.length} tokens: “${answer.trim()}”</text>`,
  );
  for (const [i, s] of share.entries()) {
    const color = isSecret[i] ? '#d9480f' : '#1864ab';
    shapes.push(
      `<rect x="${left + i * cell}" y="${top}" width="${cell}" height="${high}" fill="${color}" fill-opacity="${(0.08 + 0.92 * s).toFixed(2)}"/>`,
    );
  }
}
const width = Math.ceil(2 * left + ids.length * cell);
const height = policies.length * (high + 2 * line) + 10;
console.log(`<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 ${width} ${height}" width="${width}" font-family="sans-serif" font-size="11">
<title>Tokens that two policies keep of one text, left to right; darker: more KV heads keep it; orange: the secret</title>
<rect width="100%" height="100%" fill="#fff"/>
${shapes.join('\n')}
<text x="${left}" y="${height - 6}">Tokens from left to right. Darker: more KV heads keep it. Orange: the secret.</text>
</svg>`);
