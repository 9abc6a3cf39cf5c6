/**
 * `npm run test:cluster`: runs examples/cluster (nginx, Redis, two workers) on this machine. Workers are killed in the middle
 * of answers, told to end, and left without Redis; every conversation must go on with the tokens and the counts of one
 * server that never stopped.
 */
import { spawn, spawnSync } from 'node:child_process';
import { once } from 'node:events';
import { mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import { freePort, hasRedis, startRedis } from '../packages/model-testing/src/redis.mjs';
import { built } from './lib/kv.mjs';
import { fail, root, run, showUsage } from './lib/process.mjs';

showUsage(import.meta.filename);
const hasNginx = () => spawnSync('nginx', ['-v']).status === 0;
if (!hasRedis() || !hasNginx()) {
  console.error('Installing the Debian packages redis-server and nginx-light (once) ...');
  const apt = (...args) => run('apt-get', ['-o', 'Acquire::Retries=3', ...args]);
  await apt('update', '-qq');
  await apt('install', '-y', '-qq', '--no-install-recommends', 'redis-server', 'nginx-light');
  if (!hasRedis() || !hasNginx())
    fail('redis-server and nginx could not be installed: this test needs them, or root on Debian 12 with a mirror.');
}

const KEY = 'kv-cluster-test',
  /** What conversations go by, and how their answers are drawn. */
  WAYS = [
    {},
    { policy: 'streaming', budget: 64, block: 16 },
    { policy: 'h2o', budget: 64, block: 8, every: 4 },
    { policy: 'taFast', budget: 64, block: 16 },
  ].flatMap((policy) => [
    { ...policy, temperature: 0 },
    { ...policy, temperature: 0.9, seed: 7 },
  ]),
  LINES = [
    'The secret code is: XK7M9P2Q. The boys walked to Paris, and',
    'They had walked for',
    'Paris is the capital of',
    'The password is: hunter22, and the river was',
  ],
  /** Answers that a worker has begun when it is killed. */
  BEGUN = 3,
  /** Tokens of an answer, whose end is forbidden so that there is time to kill its worker. */
  TOKENS = 40,
  TURNS = 8;

const bin = await built(['--conversations', 'redis://']),
  folder = mkdtempSync(join(tmpdir(), 'kv-cluster-')),
  keys = join(folder, 'keys.txt'),
  running = new Set(),
  count = { passed: 0, failed: 0 };
writeFileSync(keys, `${KEY}\n`, { mode: 0o600 });
const check = (says, ok) => {
  count[ok ? 'passed' : 'failed']++;
  console.log(`${ok ? ' ok ' : 'FAIL'} ${says}`);
};

/** Starts a program; `out` is what it has written. */
function start(command, args) {
  const child = spawn(command, args, { stdio: ['ignore', 'pipe', 'pipe'] }),
    program = { child, out: '', ended: once(child, 'close').then(() => running.delete(child)) };
  for (const stream of [child.stdout, child.stderr]) stream.on('data', (text) => (program.out += text));
  running.add(child);
  return program;
}

async function until(what, done, milliseconds = 60_000) {
  for (const last = Date.now() + milliseconds; Date.now() < last; await sleep(25)) if (await done()) return;
  throw new Error(`expected ${what}, it did not come`);
}

/** Starts `kv serve`, and waits until it answers. */
async function serve(port, store) {
  const args = ['serve', '--model', 'embedded', '--memory', '512MB', '--port', String(port), '--api-key-file', keys],
    server = start(process.execPath, [bin, ...args, ...(store ? ['--conversations', store] : [])]),
    address = `http://127.0.0.1:${port}`,
    healthy = () =>
      fetch(`${address}/health`).then(
        ({ ok }) => ok,
        () => false,
      );
  await until(`a worker at ${address}`, async () => {
    if (!running.has(server.child)) throw new Error(`a worker ended: ${server.out}`);
    return healthy();
  });
  const status = async () => (await fetch(`${address}/status`, { headers: { authorization: `Bearer ${KEY}` } })).json();
  return { program: server, child: server.child, ended: server.ended, port, address, status };
}

/** Text and counts of a streamed answer; throws where it is cut. */
async function answer(address, id, way, messages, onText = () => {}) {
  const reply = await fetch(`${address}/v1/chat/completions`, {
    method: 'POST',
    headers: {
      'content-type': 'application/json',
      authorization: `Bearer ${KEY}`,
      ...(id !== undefined && { 'x-conversation-id': id }),
    },
    body: JSON.stringify({
      ...way,
      messages,
      logit_bias: Object.fromEntries(ENDS.map((end) => [end, -100])),
      max_tokens: TOKENS,
      stream: true,
      stream_options: { include_usage: true },
    }),
  });
  if (!reply.ok) throw new Error(`${reply.status} ${await reply.text()}`);
  const at = reply.headers.get('x-worker') ?? '',
    decoder = new TextDecoder();
  let said = '',
    rest = '',
    usage,
    whole = false;
  for await (const part of reply.body) {
    const frames = (rest + decoder.decode(part, { stream: true })).split('\n\n');
    rest = frames.pop();
    for (const frame of frames) {
      const data = frame.replace(/^data: /, '');
      if (data === '[DONE]') whole = true;
      else {
        const { choices, usage: told, error } = JSON.parse(data);
        if (error) throw new Error(error.message);
        if (told) usage = told;
        said += choices?.[0]?.delta.content ?? '';
        if (said !== '') onText(at);
      }
    }
  }
  if (!whole) throw new Error('the answer was cut');
  return { at, said, read: usage.prompt_tokens, reused: usage.prompt_tokens_details.cached_tokens };
}

/** A conversation, whose client asks again where an answer fails. */
class Conversation {
  constructor(i) {
    this.way = WAYS[i % WAYS.length];
    this.id = `conversation-${i}`;
    this.first = i;
    this.messages = [];
    this.turns = [];
    this.asked = 0;
  }
  async turn(address, { named = true, onText } = {}) {
    const turn = this.turns.length,
      content = `${this.first}. ${LINES[(this.first + turn) % LINES.length]}`; // no two are alike
    this.messages.push({ role: 'user', content });
    for (let tries = 10; ; tries--) {
      this.asked++;
      try {
        const { at, ...came } = await answer(address, named ? this.id : undefined, this.way, this.messages, onText);
        this.at = at;
        this.turns.push(came);
        this.messages.push({ role: 'assistant', content: came.said });
        return;
      } catch (cause) {
        if (tries === 0) throw cause;
        failures.push(cause.cause?.code ?? cause.message);
        await sleep(200);
      }
    }
  }
}

/** Failures that clients have seen. */
const failures = [];
const since = () => failures.splice(0);
const conversations = () => Array.from({ length: 2 * WAYS.length }, (_, i) => new Conversation(i));
const each = (all, turn) => Promise.all(all.map(turn));

let redis, nginx;
/** Ids of the embedded model's end and of line ends. */
let ENDS = [];
try {
  const { loadModel } = await import('../packages/models/dist/index.js'),
    { config, tokenizer } = await loadModel('embedded');
  ENDS = [
    ...config.eosIds,
    ...Array.from({ length: config.vocab }, (_, id) => id).filter((id) => tokenizer.decode([id]).includes('\n')),
  ];

  const alone = await serve(await freePort()),
    expected = conversations();
  for (let turn = 0; turn < TURNS; turn++) await each(expected, (one) => one.turn(alone.address));
  check(`one server answers ${expected.length} conversations of ${TURNS} turns`, since().length === 0);
  alone.child.kill('SIGTERM');

  redis = await startRedis();
  const ports = [await freePort(), await freePort()],
    door = await freePort();
  const workers = await Promise.all(ports.map((port) => serve(port, redis.url)));
  const worker = (at) => workers.findIndex(({ port }) => at.endsWith(`:${port}`));

  const example = readFileSync(join(root, 'examples/cluster/nginx.conf'), 'utf8'),
    conf = join(folder, 'nginx.conf');
  writeFileSync(
    conf,
    example
      .replace('listen 8080', `listen 127.0.0.1:${door}`)
      .replace(/worker-(\d):8080/g, (_, n) => `127.0.0.1:${ports[n - 1]}`)
      .replace('location / {', 'location / {\n      add_header x-worker $upstream_addr;')
      .replace(
        'http {',
        `http {\n  access_log off;\n  client_body_temp_path ${folder}/body;\n  proxy_temp_path ${folder}/proxy;\n  fastcgi_temp_path ${folder}/f;\n  uwsgi_temp_path ${folder}/u;\n  scgi_temp_path ${folder}/s;`,
      ),
  );
  const nginxArgs = ['-p', folder, '-c', conf, '-e', join(folder, 'error.log'), '-g', `pid ${folder}/nginx.pid;`],
    tested = spawnSync('nginx', [...nginxArgs, '-t'], { encoding: 'utf8' });
  check(
    `nginx takes examples/cluster/nginx.conf${tested.status === 0 ? '' : `: ${tested.stderr}`}`,
    tested.status === 0,
  );
  nginx = start('nginx', [...nginxArgs.slice(0, -1), `${nginxArgs.at(-1)} daemon off;`]);
  const address = `http://127.0.0.1:${door}`;
  await until('nginx', () =>
    fetch(`${address}/health`).then(
      ({ ok }) => ok,
      () => false,
    ),
  );

  const all = conversations();
  // each worker gets its half: names are tried until nginx sends one there
  for (const one of all)
    await until(`a name for ${one.id}`, async () => {
      one.id = `conversation-${one.first}-${Math.random()}`;
      const { headers } = await fetch(`${address}/health`, { headers: { 'x-conversation-id': one.id } });
      return worker(headers.get('x-worker') ?? '') === one.first % 2;
    });
  /** Whether all turns so far are those of the server that never stopped. */
  const same = (says, of = all) => {
    const other = of.flatMap((one) => {
      const want = expected[one.first].turns.slice(0, one.turns.length),
        at = one.turns.findIndex((turn, i) => JSON.stringify(turn) !== JSON.stringify(want[i]));
      return at < 0 ? [] : [`${one.id} turn ${at}: ${JSON.stringify(one.turns[at])}, not ${JSON.stringify(want[at])}`];
    });
    check(
      `${says}: tokens and counts are those of one server${other.length === 0 ? '' : `\n     ${other.slice(0, 3).join('\n     ')}`}`,
      other.length === 0,
    );
  };

  await each(all, (one) => one.turn(address));
  const homes = all.map(({ at }) => at);
  await each(all, (one) => one.turn(address));
  check(
    `conversations stay where their caches are (${homes.filter((at) => worker(at) === 0).length} and ${homes.filter((at) => worker(at) === 1).length})`,
    all.every(({ at }, i) => at === homes[i]) && new Set(homes).size === 2 && since().length === 0,
  );
  same('two turns');

  // killed while it answers: a text was begun, and is cut
  for (const victim of [0, 1]) {
    const begun = new Set();
    await each(all, (one) =>
      one.turn(address, {
        onText(at) {
          if (worker(at) === victim && begun.add(one).size === BEGUN) workers[victim].child.kill('SIGKILL');
        },
      }),
    );
    const cut = since();
    check(
      `worker ${victim + 1} was killed in the middle of ${cut.length} answers, which clients asked for again`,
      workers[victim].child.killed && cut.length >= BEGUN,
    );
    check(
      'they went on at the other',
      all.every(({ at }) => at.endsWith(`:${ports[1 - victim]}`)),
    );
    same('after the kill');
    const { conversations: counts } = await workers[1 - victim].status();
    check(
      `all of its caches came from the store (${counts.loaded} loaded)`,
      counts.loaded >= homes.filter((at) => worker(at) === victim).length,
    );
    workers[victim] = await serve(ports[victim], redis.url);
    // after fail_timeout one request tries the worker, and the others follow
    const home = all.findIndex((_, i) => worker(homes[i]) === victim);
    await until('the worker to be tried again', async () => {
      const { headers } = await fetch(`${address}/health`, { headers: { 'x-conversation-id': all[home].id } });
      return worker(headers.get('x-worker') ?? '') === victim;
    });
    await each(all, (one) => one.turn(address));
    check(
      'conversations went back to the worker that came back',
      all.every(({ at }, i) => at === homes[i]) && since().length === 0,
    );
    same('back');
  }

  await each(all, (one) => one.turn(address, { named: false }));
  check('without a name they go anywhere', since().length === 0 && all.some(({ at }, i) => at !== homes[i]));
  same('without a name');

  // told to end while it answers, and Redis is gone
  let told = false;
  await each(all, (one) =>
    one.turn(address, {
      onText: (at) => {
        if (told || worker(at) !== 0) return;
        told = true;
        workers[0].child.kill('SIGTERM');
      },
    }),
  );
  await workers[0].ended;
  const lost = since();
  check(
    `a worker that is told to end ends its answers first (${lost.join(', ') || 'none was cut'})`,
    told && lost.length === 0,
  );
  same('after the end');
  check(
    'eight turns were compared',
    all.every(({ turns }) => turns.length === TURNS),
  );

  const sent = Number(
      redis
        .ask('info', 'stats')
        .find((line) => line.startsWith('total_net_input_bytes'))
        ?.split(':')[1],
    ),
    answers = all.reduce((sum, { asked }) => sum + asked, 0);
  console.log(`bytes to Redis: ${(sent / answers / 2 ** 10).toFixed(0)} KiB an answer, of ${answers} answers`);
  await redis.stop();
  const before = workers[1].program.out.split('\n').length;
  const extra = new Conversation(0);
  for (let turn = 0; turn < 3; turn++) await extra.turn(address);
  same('without Redis', [extra]);
  const lines = workers[1].program.out
    .split('\n')
    .slice(before - 1)
    .filter((line) => line.includes('could not be used'));
  check(
    `without Redis every answer came, and the log has one line of it (${lines.length})`,
    since().length === 0 && lines.length === 1,
  );
} catch (error) {
  check(error instanceof Error ? error.stack : String(error), false);
} finally {
  for (const child of running) child.kill(child === nginx?.child ? 'SIGQUIT' : 'SIGKILL');
  await nginx?.ended;
  await redis?.stop();
  rmSync(folder, { recursive: true, force: true });
}
console.log(`${count.passed} passed, ${count.failed} failed`);
process.exit(count.failed === 0 ? 0 : 1);
