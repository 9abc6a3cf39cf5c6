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
<h1>kv serve</h1>
<dl id="state" aria-live="polite"></dl>
<label for="memory">Memory promised</label>
<meter id="memory" min="0" max="1" value="0"></meter>
<form id="try">
<label for="key">API key, if the server has keys</label>
<input id="key" type="password" autocomplete="off">
<label for="prompt">Message</label>
<textarea id="prompt" rows="4" required></textarea>
<label for="policy">Policy (empty: the server's)</label>
<input id="policy" placeholder="outstandingSentences" autocomplete="off" spellcheck="false">
<label for="budget">Budget</label>
<input id="budget" placeholder="25%" autocomplete="off">
<p><button type="submit">Send</button> <button type="button" id="stop" disabled>Stop</button></p>
</form>
<output id="answer" for="prompt"></output>
<p id="usage" role="status"></p>
</main>
</body>
</html>
`;

const CSS = `body { font: 1rem/1.5 system-ui, sans-serif; margin: 0 }
main { max-width: 44rem; margin: 0 auto; padding: 1rem }
dl { display: grid; grid-template-columns: max-content 1fr; gap: 0 1rem }
dd { margin: 0; font-variant-numeric: tabular-nums }
label { display: block; margin-top: .5rem }
input, textarea, meter { width: 100%; box-sizing: border-box; font: inherit }
#answer { display: block; white-space: pre-wrap; margin-top: 1rem; min-height: 3rem }
`;

const JS = `const at = (id) => document.getElementById(id);
const key = () => (at('key').value === '' ? {} : { authorization: 'Bearer ' + at('key').value });
const bytes = (n) => (n / 1e6).toFixed(1) + ' MB';
let sent;

async function show() {
  try {
    const answer = await fetch('/status', { headers: key() });
    if (!answer.ok) return;
    const { model, engine, policy, prompts, memory, weights } = await answer.json();
    const rows = {
      Model: model, Engine: engine, Policy: policy,
      Running: prompts.answering + ' answered, ' + prompts.reading + ' read, ' + prompts.waiting + ' waiting',
      Memory: bytes(memory.promised) + ' promised of ' + bytes(memory.limit) + ', ' + bytes(memory.prefixes) + ' of prefixes',
      ...(weights === undefined ? {} : { Weights: bytes(weights) + ' in addition' }),
    };
    at('state').replaceChildren(...Object.entries(rows).flatMap(([name, value]) => {
      const [dt, dd] = [document.createElement('dt'), document.createElement('dd')];
      [dt.textContent, dd.textContent] = [name, value];
      return [dt, dd];
    }));
    at('memory').value = memory.promised / memory.limit;
  } catch {
    at('usage').textContent = 'The server does not answer.';
  }
}

async function send(event) {
  event.preventDefault();
  sent = new AbortController();
  at('stop').disabled = false;
  at('answer').textContent = at('usage').textContent = '';
  const budget = at('budget').value.trim();
  const body = {
    messages: [{ role: 'user', content: at('prompt').value }],
    stream: true, stream_options: { include_usage: true },
    ...(at('policy').value.trim() === '' ? {} : { policy: at('policy').value.trim() }),
    ...(budget === '' ? {} : { budget: budget.endsWith('%') ? budget : Number(budget) }),
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
        at('answer').textContent += choices[0]?.delta.content ?? '';
        if (usage) at('usage').textContent = usage.prompt_tokens + ' + ' + usage.completion_tokens + ' tokens, ' + usage.kept_slots + ' slots kept, ' + usage.dropped_slots + ' dropped';
      }
    }
  } catch (error) {
    if (error.name !== 'AbortError') at('usage').textContent = error.message;
  } finally {
    at('stop').disabled = true;
  }
}

at('try').addEventListener('submit', send);
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
