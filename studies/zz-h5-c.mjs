import { createServer } from 'node:http';
import { readFileSync, existsSync } from 'node:fs';
import { createRequire } from 'node:module';
const { chromium } = createRequire('/work/main/apps/playground/package.json')('playwright-core');
const root='/work/main/apps/playground/dist';
const types={html:'text/html',js:'text/javascript',css:'text/css',json:'application/json',svg:'image/svg+xml',webmanifest:'application/json'};
const server=createServer((q,r)=>{ let p=decodeURIComponent(new URL(q.url,'http://x').pathname); if(p==='/')p='/index.html'; const f=root+p; if(!existsSync(f)){r.writeHead(404).end();return;} r.writeHead(200,{'content-type':types[f.split('.').pop()]??'application/octet-stream'}).end(readFileSync(f)); }).listen(0,'127.0.0.1');
await new Promise(r=>server.on('listening',r));
const url=`http://127.0.0.1:${server.address().port}/`;
const browser=await chromium.launch({executablePath:'/usr/bin/chromium',args:['--no-sandbox']});
const page=await browser.newPage();
page.on('pageerror',e=>console.log('pageerror',String(e)));
const scen=process.argv[2]??'stop';
const t=Date.now();
await page.goto(url+'#device=cpu&tokens=256&new=128'+(scen==='choose'?'&text='+encodeURIComponent(readFileSync('/work/main/README.md','utf8').slice(0,300))+'&new=4':''));
const why=async(label)=>{ 
  const sp=await page.$('.side .text span[data-position="20"]'); await sp.click(); await page.waitForTimeout(2500);
  console.log(label, Date.now()-t,'state',await page.evaluate(()=>document.body.dataset.state), JSON.stringify(await page.$$eval('.why section',a=>a.map(x=>x.textContent.slice(0,80)))));
  await page.keyboard.press('Escape');
};
if (scen==='stop') {
  await page.waitForFunction(()=>document.querySelectorAll('.side .text .new').length>8,{timeout:15000});
  await page.evaluate(()=>document.querySelector('#stop').click());
  await page.waitForSelector('body[data-state=done]');
  await why('after stop');
} else {
  await page.waitForSelector('body[data-state=done]',{timeout:15000});
  await why('after run');
  await page.evaluate(()=>{document.querySelector('#choose').click()});
  await page.waitForTimeout(1500);
  await page.evaluate(()=>document.querySelector('#stop').click());
  await page.waitForSelector('body[data-state=done]');
  console.log(await page.evaluate(()=>[document.querySelector('#chosen').textContent.slice(0,150), document.querySelector('#status').textContent, document.querySelector('#result').hidden]));
  await why('after choose stopped');
}
await browser.close(); server.close();
