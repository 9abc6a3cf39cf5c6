import { createRequire } from 'node:module';
const own = createRequire('/work/wt/page/apps/playground/package.json');
const { chromium } = own('playwright-core'); const axe = own('axe-core');
import http from 'node:http'; import fs from 'node:fs'; import path from 'node:path';
const d='/work/wt/page/apps/docs/dist';
const s=http.createServer((q,r)=>{const f=path.join(d,new URL(q.url,'http://x').pathname); if(!fs.existsSync(f)){r.writeHead(404).end();return} const t={'.html':'text/html','.js':'text/javascript','.css':'text/css','.svg':'image/svg+xml'}[path.extname(f)]??'application/octet-stream'; r.writeHead(200,{'content-type':t}); fs.createReadStream(f).pipe(r)}).listen(0,async()=>{
const b=await chromium.launch({executablePath:'/usr/bin/chromium'});
for (const scheme of ['light','dark']) { const c=await b.newContext({colorScheme:scheme,viewport:{width:1280,height:900}}); const p=await c.newPage();
for (const f of ['packages/core/index.html','index.html','pieces/caote-transform.html','start.html']) { if(!fs.existsSync(d+'/'+f)) {console.log('no',f);continue}
await p.goto(`http://127.0.0.1:${s.address().port}/${f}`); await p.waitForTimeout(500); await p.screenshot({path:`/tmp/site-${scheme}-${f.replaceAll('/','_')}.png`}); }
await p.goto(`http://127.0.0.1:${s.address().port}/packages/core/index.html`);
await p.evaluate(axe.source); const {violations}=await p.evaluate(()=>axe.run()); for(const v of violations.filter(v=>/serious|critical/.test(v.impact))) console.log(scheme,v.id,JSON.stringify(v.nodes[0].any.map(a=>[a.message,a.data]).slice(0,1)).slice(0,300), v.nodes[0].failureSummary);
console.log(await p.$eval('.DocSearch-Button',e=>e.innerText+'|'+e.textContent+'|'+e.outerHTML.slice(0,500))); }
await b.close(); s.close();});
