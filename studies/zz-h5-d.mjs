import { retainTokens, retainHistory } from '../packages/adapters/node-llama-cpp/dist/index.js';
import { policy } from '@kv/policies';
const detok=(ids)=>ids.map(i=>String.fromCharCode(i)).join('');
const mk=(size)=>({contextTokens:[],contextSize:size,model:{fileInsights:{},tokenizer:{detokenize:detok}}});
const feed=(s,text)=>{for(const c of text) s.contextTokens.push(c.charCodeAt(0));};
const erase=(s,r)=>{ s.contextTokens=s.contextTokens.filter((_,i)=>!r.some(({start,end})=>i>=start&&i<end)); };
async function run(budget,pol='streaming',size=256,text) {
  const s=mk(size); let i=0; const log=[];
  const words=text??(()=>{i++; return `Line ${i} says ${i*7919%1000}. `});
  let shifts=0;
  try { for(let t=0;t<400;t++){ const w=words(); for(const c of w){ if(s.contextTokens.length>=size-1){ const r=await retainTokens(s,{policy:pol,budget}); const b=s.contextTokens.length; erase(s,r); shifts++; log.push(b-s.contextTokens.length);} s.contextTokens.push(c.charCodeAt(0)); } } }
  catch(e){ console.log(JSON.stringify(budget),pol,'threw after',shifts,'shifts, freed',log.slice(-8).join(','),':',e.message.slice(0,150)); return; }
  console.log(JSON.stringify(budget),pol,shifts,'freed',log.slice(0,5).join(','),'...',log.slice(-5).join(','), JSON.stringify(detok(s.contextTokens).slice(0,60)));
}
for (const b of ['50%','25%',1,2,128,253,254,'64MiB','25% of f16',0]) await run(b);
for (const p of ['taFast','random','rarity','weighted(0.5*recency,1*sponsorship(reach=12)) ∘ mandatory(sinks=4,recent=16) ∘ sentences ∘ wholeUnits(last=fill)','crystalcache','streaming(sinks=0)','recency | fixedBudgets(shares=1) | topK','streaming | levels', 'streaming|promptPart|topK','rarity|mass|topK','rarity|threshold(at=0.5)|topK','streamingRerotated','weighted(1*recency)|diversity(lambda=0)', 'recency|adaKV|topK','phases','recurrence','sponsorship(decay=0.9)','protect']) await run(64,p);
