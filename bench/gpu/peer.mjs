import { spawn } from 'node:child_process';
import { fileURLToPath } from 'node:url';

/**
 * Returns the lines of torch_peer.py, or one that says why there are none. Ends the process after `seconds`, with the
 * lines it has written.
 */
export async function torchPeer(python, job, seconds) {
  const child = spawn(python, [fileURLToPath(new URL('torch_peer.py', import.meta.url)), JSON.stringify(job)], {
    stdio: ['ignore', 'pipe', 'pipe'],
  });
  let out = '',
    err = '',
    late = false;
  child.stdout.on('data', (some) => {
    out += some;
  });
  child.stderr.on('data', (some) => {
    err = `${err}${some}`.slice(-2000);
  });
  const timer = setTimeout(() => {
    late = true;
    child.kill('SIGKILL');
  }, 1000 * seconds);
  const code = await new Promise((resolve) => {
    child.on('error', ({ message }) => {
      err = message;
      resolve(-1);
    });
    child.on('close', resolve);
  });
  clearTimeout(timer);
  const lines = out
    .split('\n')
    .filter((line) => line.startsWith('{') && line.endsWith('}'))
    .map((line) => JSON.parse(line));
  return code === 0
    ? lines
    : [
        ...lines,
        {
          peer: 'torch',
          skipped: late
            ? `stopped after ${seconds.toFixed(0)} s`
            : err.trim().split('\n').at(-1) || `ended with ${code}`,
        },
      ];
}
