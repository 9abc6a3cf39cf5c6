/** Draws which tokens two policies keep of one text, as SVG: `node examples/kept-map.mjs > kept.svg`. */
import { generate, loadModel } from '@kv/models';

const prompt = `${'The boys walked on in silence. '.repeat(12)}The secret code is: XK7M9P2Q. ${'The river was wide. '.repeat(12)}The secret code is:`;
const policies = ['streaming', 'snapkv(window=16,kernel=17,pooling=max) | caote | topK'];
const [cell, perLine, high, left] = [4, 105, 18, 6];

const model = await loadModel('embedded');
const { ids, offsets } = model.tokenizer.encode(prompt);
const from = prompt.indexOf('XK7M9P2Q');
const isSecret = offsets.map(([start, end]) => start < from + 8 && end > from);
const shapes = [];
let top = 0;
for (const policy of policies) {
  const { text: answer, report } = await generate(model, { prompt, policy, budget: 48, maxNewTokens: 12, stop: ['.'] });
  const rows = report.kept.flat();
  shapes.push(`<text x="${left}" y="${top + 16}" font-weight="600">${report.policy}</text>`);
  shapes.push(`<text x="${left}" y="${top + 33}">keeps 48 of ${ids.length} tokens, answers “${answer.trim()}”</text>`);
  top += 40;
  for (const i of ids.keys()) {
    const share = rows.filter((kept) => kept.includes(i)).length / rows.length;
    const [x, y] = [left + (i % perLine) * cell, top + Math.floor(i / perLine) * (high + 3)];
    shapes.push(
      `<rect x="${x}" y="${y}" width="${cell}" height="${high}" class="${isSecret[i] ? 'secret' : 'token'}" fill-opacity="${(0.1 + 0.9 * share).toFixed(2)}"/>`,
    );
  }
  top += Math.ceil(ids.length / perLine) * (high + 3) + 8;
}
const [width, height] = [2 * left + perLine * cell, top + 22];
console.log(`<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 ${width} ${height}" width="${1.5 * width}" font-family="sans-serif" font-size="12.5">
<title>Tokens that two policies keep of one text, line by line; darker: more KV heads keep it; orange: the secret</title>
<style>.paper { fill: #fff } text { fill: #1b1f24 } .token { fill: #1864ab } .secret { fill: #d9480f }
@media (prefers-color-scheme: dark) { .paper { fill: #161b22 } text { fill: #e6e9ed } .token { fill: #6aa8f2 } .secret { fill: #ff8a4c } }</style>
<rect width="100%" height="100%" class="paper"/>
${shapes.join('\n')}
<text x="${left}" y="${height - 8}">Stronger: kept by more KV heads. Orange: the secret.</text>
</svg>`);
