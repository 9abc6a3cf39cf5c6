import { spawn, spawnSync } from 'node:child_process';
import { once } from 'node:events';
import { createServer } from 'node:net';
import { tmpdir } from 'node:os';

export const hasRedis = () => spawnSync('redis-server', ['--version']).status === 0;

export async function startRedis(args = []) {
  const port = await freePort(),
    own = ['--port', String(port), '--bind', '127.0.0.1', '--save', '', '--dir', tmpdir()],
    child = spawn('redis-server', [...own, ...args], { stdio: ['ignore', 'pipe', 'inherit'] }),
    ended = once(child, 'close');
  await new Promise((resolve, reject) => {
    child.stdout.on('data', (text) => {
      if (text.includes('Ready to accept connections')) resolve();
    });
    void ended.then(() => reject(new Error('redis-server ended before it listened')));
  });
  return {
    url: `redis://127.0.0.1:${port}`,
    ask: (...words) => {
      const { stdout } = spawnSync('redis-cli', ['--raw', '-p', String(port), ...words], { encoding: 'utf8' });
      return stdout.split('\n').filter((line) => line !== '');
    },
    stop: async () => {
      child.kill('SIGKILL');
      await ended;
    },
  };
}

export async function freePort() {
  const server = createServer().listen(0, '127.0.0.1');
  await once(server, 'listening');
  const { port } = server.address();
  server.close();
  return port;
}
