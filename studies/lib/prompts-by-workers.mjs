import { fork } from 'node:child_process';
import { appendFileSync, existsSync, readFileSync } from 'node:fs';

/** Calls `work` with a sequence and destroys it afterwards. */
export async function using(sequence, work) {
  try {
    return await work(sequence);
  } finally {
    sequence.destroy();
  }
}

/** Returns the complete lines that `byWorkers` wrote, oldest first; none if there is no file yet. */
export const linesOf = (results) =>
  existsSync(results)
    ? readFileSync(results, 'utf8')
        .split('\n')
        .filter((line) => line.endsWith('}'))
        .map((line) => JSON.parse(line))
    : [];

/**
 * Returns the greedy answer by `decode` of `@kv/models`, at most 28 tokens up to a full stop or a line break, and its
 * tokens.
 */
export async function greedy(decode, sequence) {
  const tokens = [];
  let text = '';
  for await (const chunk of decode(sequence, { maxNewTokens: 28, stop: ['.', '\n'] })) {
    text += chunk.text;
    if (chunk.token !== undefined) tokens.push(chunk.token);
  }
  return { text, tokens };
}

/**
 * Runs a study's script once per worker. Workers report their engine, then answer jobs with `answer`; the first process
 * distributes `jobs` until the time of day `until`, UTC, and appends the answers, one or several lines each, to `results`.
 * `told` names an answer.
 */
export async function byWorkers(script, { jobs, answer, results, workers, until, told }) {
  if (process.env.KV_STUDY_WORKER) {
    const { engine, run } = await answer();
    process.on('message', async (job) => process.send(await run(job)));
    process.send({ engine });
    return;
  }
  const left = jobs(),
    [hours, minutes] = until.split(':').map(Number),
    end = new Date().setUTCHours(hours, minutes, 0, 0);
  await Promise.all(
    Array.from(
      { length: Math.min(workers, left.length) },
      () =>
        new Promise((ended, failed) => {
          const worker = fork(script, process.argv.slice(2), { env: { ...process.env, KV_STUDY_WORKER: '1' } });
          const next = () => {
            const job = Date.now() < end ? left.shift() : undefined;
            if (job) worker.send(job);
            else worker.kill();
          };
          worker.on('message', (result) => {
            if (!result.engine) {
              appendFileSync(
                results,
                [result]
                  .flat()
                  .map((line) => `${JSON.stringify(line)}\n`)
                  .join(''),
              );
              console.log(new Date().toISOString().slice(11, 19), ...told(result));
            }
            next();
          });
          worker.on('exit', (code, signal) =>
            code && !signal ? failed(new Error(`a worker ended with code ${code}`)) : ended(),
          );
        }),
    ),
  );
}
