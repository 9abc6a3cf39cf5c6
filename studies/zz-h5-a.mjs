import { loadModel, generate, Sequence } from '@kv/models';
import { policyNames, policy } from '@kv/policies';
const model = await loadModel('embedded');
const [,, from='0', to='200', tokens='40'] = process.argv;
const prompt = 'The code is: AB12CD34. The river was wide.\n\n'.repeat(4);
const t0=Date.now();
for (const name of policyNames.slice(+from,+to)) {
  for (const budget of [1, 3, 20, 10000,  '100%']) {
    try {
      const r = await generate(model, { prompt, policy: name, budget, maxNewTokens: 4, every: 2, stopAtEos:false });
      const k = r.report.kept.flat().map(s=>s.length);
      const n = Math.max(...k), m=Math.min(...k);
      const lim = typeof budget==='number'?budget: Infinity;
      if (n>lim || m===0 || Number.isNaN(r.text)) console.log(name, budget, 'kept', m, n, JSON.stringify(r.text), r.report.notes?.slice(0,1));
    } catch (e) {
      const kv = e.at!==undefined;
      if (!kv) console.log('CRASH', name, budget, e.stack.split('\n').slice(0,4).join(' | '));
      else if (budget===20||budget===10000||budget==='100%') console.log('  kv', name, budget, e.message.slice(0,160));
    }
  }
  if (Date.now()-t0>17000) { console.log('stopped at', name); break; }
}
