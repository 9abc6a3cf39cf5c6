/**
 * Content security policy of the page: its own script and style, requests to its own origin, and no text as code or
 * HTML.
 */
export const PAGE_HEADERS: Readonly<Record<string, string>> = {
  'Content-Security-Policy': [
    "default-src 'none'",
    "script-src 'self'",
    "connect-src 'self'",
    "style-src 'self'",
    "base-uri 'none'",
    "form-action 'none'",
    "require-trusted-types-for 'script'",
    "trusted-types 'none'",
    "frame-ancestors 'none'",
  ].join('; '),
  'Cross-Origin-Opener-Policy': 'same-origin',
  'Cross-Origin-Resource-Policy': 'same-origin',
  'Permissions-Policy': 'camera=(), geolocation=(), microphone=()',
  'Referrer-Policy': 'no-referrer',
  'X-Content-Type-Options': 'nosniff',
};

const HTML = `<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<meta name="color-scheme" content="light dark">
<title>kv serve</title>
<link rel="stylesheet" href="/page.css">
<script type="module" src="/page.js"></script>
</head>
<body>
<main>
<header>
<h1 id="model">kv serve</h1>
<p><label for="memory">Memory</label> <meter id="memory" min="0" max="1" value="0"></meter> <span id="promised"></span></p>
</header>
<section id="talk" aria-label="Conversation" aria-live="polite"></section>
<p id="usage" role="status"></p>
<form id="try">
<label for="prompt">Message</label>
<textarea id="prompt" rows="2" required placeholder="Write a message; Enter sends it"></textarea>
<p><button type="submit">Send</button> <button type="button" id="stop" disabled>Stop</button> <button type="button" id="clear">Clear</button></p>
<details>
<summary>Policy, budget, key, server</summary>
<label for="policy">Policy (empty: the server's)</label>
<input id="policy" placeholder="outstandingSentences" autocomplete="off" spellcheck="false">
<label for="budget">Budget (empty: the server's)</label>
<input id="budget" placeholder="25%" autocomplete="off">
<label for="key">API key, if the server has keys</label>
<input id="key" type="password" autocomplete="off">
<dl id="state"></dl>
</details>
</form>
</main>
</body>
</html>
`;

const CSS = `:root { color-scheme: light dark; --line: color-mix(in srgb, CanvasText 22%, Canvas); --own: color-mix(in srgb, Highlight 14%, Canvas) }
body { font: 1rem/1.5 system-ui, sans-serif; margin: 0 }
main { max-width: 46rem; min-height: 100vh; margin: 0 auto; padding: 1rem; box-sizing: border-box; display: flex; flex-direction: column }
header { display: flex; flex-wrap: wrap; gap: 0 1.5rem; align-items: baseline; justify-content: space-between; border-bottom: 1px solid var(--line) }
h1 { font-size: 1.15rem; margin: 0; overflow-wrap: anywhere }
header p { margin: 0; font-size: .9rem }
meter { width: 8rem; vertical-align: middle }
#talk { flex: 1; padding: 1rem 0 }
#talk p { white-space: pre-wrap; overflow-wrap: anywhere; margin: 0 0 .75rem; padding: .5rem .8rem; border: 1px solid var(--line); border-radius: .6rem; min-height: 1.5em }
#talk .user { background: var(--own); margin-left: 15% }
#usage { margin: 0; min-height: 1.5em; font-size: .9rem }
dl { display: grid; grid-template-columns: max-content 1fr; gap: 0 1rem }
dd { margin: 0; font-variant-numeric: tabular-nums; overflow-wrap: anywhere }
label { font-size: .9rem }
input, textarea { width: 100%; box-sizing: border-box; font: inherit; padding: .4rem .6rem }
button { font: inherit; padding: .3rem .9rem }
form > p { margin: .5rem 0 }
details label { display: block; margin-top: .5rem }
`;

const JS = `const at = (id) => document.getElementById(id);
const key = () => (at('key').value === '' ? {} : { authorization: 'Bearer ' + at('key').value });
const bytes = (n) => (n / 1e6).toFixed(1) + ' MB';
let sent, messages = [];

function say(role, content) {
  const line = document.createElement('p');
  [line.className, line.textContent] = [role, content];
  at('talk').append(line);
  return line;
}

async function show() {
  try {
    const answer = await fetch('/status', { headers: key() });
    if (!answer.ok) return;
    const { model, engine, policy, cache, prompts, memory, weights } = await answer.json();
    const rows = {
      Model: model, Engine: engine, Policy: policy,
      Cache: cache.form + ', ' + cache.bytesPerToken.toLocaleString('en') + ' bytes a token'
        + (cache.stateBytes > 0 ? ', and ' + cache.stateBytes.toLocaleString('en') + ' of states an answer' : ''),
      Running: prompts.answering + ' answered, ' + prompts.reading + ' read, ' + prompts.waiting + ' waiting',
      Memory: bytes(memory.promised) + ' promised of ' + bytes(memory.limit) + ', ' + bytes(memory.conversations) + ' of conversations',
      ...(weights === undefined ? {} : { Weights: bytes(weights) + ' in addition' }),
    };
    at('state').replaceChildren(...Object.entries(rows).flatMap(([name, value]) => {
      const [dt, dd] = [document.createElement('dt'), document.createElement('dd')];
      [dt.textContent, dd.textContent] = [name, value];
      return [dt, dd];
    }));
    at('model').textContent = model;
    at('memory').value = memory.promised / memory.limit;
    at('promised').textContent = bytes(memory.promised) + ' of ' + bytes(memory.limit);
  } catch {
    at('usage').textContent = 'The server does not answer.';
  }
}

async function send(event) {
  event.preventDefault();
  const content = at('prompt').value;
  if (sent || content.trim() === '') return;
  sent = new AbortController();
  at('stop').disabled = false;
  at('prompt').value = at('usage').textContent = '';
  const asked = [...messages, { role: 'user', content }], lines = [say('user', content), say('assistant', '')], line = lines[1];
  let failed = false;
  line.scrollIntoView({ block: 'nearest' });
  const budget = at('budget').value.trim();
  const body = {
    messages: asked,
    stream: true, stream_options: { include_usage: true },
    ...(at('policy').value.trim() === '' ? {} : { policy: at('policy').value.trim() }),
    ...(budget === '' ? {} : { budget: /^\\d+$/.test(budget) ? Number(budget) : budget }),
  };
  try {
    const answer = await fetch('/v1/chat/completions', {
      method: 'POST', signal: sent.signal,
      headers: { 'content-type': 'application/json', ...key() }, body: JSON.stringify(body),
    });
    if (!answer.ok) throw new Error((await answer.json()).error.message);
    let text = '';
    for await (const chunk of answer.body.pipeThrough(new TextDecoderStream())) {
      text += chunk;
      const frames = text.split('\\n\\n');
      text = frames.pop();
      for (const frame of frames.map((line) => line.slice('data: '.length)).filter((line) => line !== '[DONE]')) {
        const { choices, usage, error } = JSON.parse(frame);
        if (error) throw new Error(error.message);
        line.textContent += choices[0]?.delta.content ?? '';
        if (usage) at('usage').textContent = usage.prompt_tokens + ' + ' + usage.completion_tokens + ' tokens, ' + usage.kept_slots + ' slots kept, ' + usage.dropped_slots + ' dropped';
      }
    }
  } catch (error) {
    failed = error.name !== 'AbortError';
    if (failed) at('usage').textContent = error.message;
  }
  // a message that was refused is not part of the conversation, and may be sent again
  if (failed) {
    for (const gone of lines) gone.remove();
    at('prompt').value ||= content;
  } else messages = [...asked, { role: 'assistant', content: line.textContent }];
  sent = undefined;
  at('stop').disabled = true;
}

at('try').addEventListener('submit', send);
at('prompt').addEventListener('keydown', (event) => {
  if (event.key !== 'Enter' || event.shiftKey || event.isComposing) return;
  event.preventDefault();
  at('try').requestSubmit();
});
at('clear').addEventListener('click', () => {
  sent?.abort();
  messages = [];
  at('talk').replaceChildren();
  at('usage').textContent = '';
});
at('stop').addEventListener('click', () => sent?.abort());
show();
setInterval(show, 1000);
`;

/** Files of the page by path. */
export const PAGE: Readonly<Record<string, { readonly type: string; readonly text: string }>> = {
  '/': { type: 'text/html; charset=utf-8', text: HTML },
  '/page.js': { type: 'text/javascript; charset=utf-8', text: JS },
  '/page.css': { type: 'text/css; charset=utf-8', text: CSS },
};
