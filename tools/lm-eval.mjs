/**
 * Runs GSM8K by lm-eval 0.4 over a running `kv serve`: generated answers, and likelihoods of questions and answers
 * (scored by `echo`), with the model's own tokenizer.
 *
 *   python3 -m venv venv && venv/bin/pip install 'lm_eval[api]==0.4.*' transformers
 *   kv serve --model MODEL --policy 'snapkv(window=16)' --budget 25%
 *   node tools/lm-eval.mjs --lm-eval venv/bin/lm_eval --data gsm8k_test.jsonl --tokenizer FOLDER --limit 3
 *
 * FOLDER holds the model's tokenizer.json, as checkpoints do; `kv export --onnx FOLDER` writes one for a GGUF. The file
 * has a question and an answer a line. What follows `--` goes to lm_eval.
 */
import { spawn } from 'node:child_process';
import { mkdtemp, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join, resolve } from 'node:path';
import { parseArgs } from 'node:util';
import { fail, showUsage } from './lib/process.mjs';

showUsage(import.meta.filename);

const { values, positionals } = parseArgs({
  allowPositionals: true,
  options: {
    'lm-eval': { type: 'string', default: 'lm_eval' },
    data: { type: 'string' },
    tokenizer: { type: 'string' },
    url: { type: 'string', default: 'http://127.0.0.1:8080/v1' },
    shots: { type: 'string', default: '0' },
    limit: { type: 'string' },
    clients: { type: 'string', default: '4' },
    context: { type: 'string', default: '2048' },
  },
});
const { data, tokenizer, url, shots, limit, clients, context } = values;
if (data === undefined || tokenizer === undefined)
  fail('lm-eval: expected --data FILE.jsonl and --tokenizer FOLDER, got not both', 2);

/** A task of lm-eval as YAML, written as JSON, which is a subset. */
const task = (name, rest) =>
  JSON.stringify({
    task: name,
    dataset_path: 'json',
    dataset_kwargs: { data_files: { test: resolve(data) } },
    test_split: 'test',
    fewshot_split: 'test',
    fewshot_config: { sampler: 'first_n' },
    doc_to_text: 'Question: {{question}}\nAnswer:',
    metadata: { version: 1 },
    ...rest,
  });
const tasks = {
  gsm8k_generated: {
    output_type: 'generate_until',
    doc_to_target: "{{answer.split('####')[-1].strip()}}",
    generation_kwargs: { until: ['Question:', '\n\n'], do_sample: false, temperature: 0, max_gen_toks: 256 },
    filter_list: [
      {
        name: 'last-number',
        filter: [
          { function: 'regex', regex_pattern: '(-?[0-9][0-9,]*)', group_select: -1 },
          { function: 'take_first' },
        ],
      },
    ],
    metric_list: [{ metric: 'exact_match', aggregation: 'mean', higher_is_better: true, regexes_to_ignore: [','] }],
  },
  gsm8k_likelihood: {
    output_type: 'loglikelihood_rolling',
    doc_to_text: '',
    doc_to_target: 'Question: {{question}}\nAnswer: {{answer}}',
    metric_list: ['byte_perplexity', 'bits_per_byte'].map((metric) => ({ metric })),
  },
};

const { data: models } = await (await fetch(`${url}/models`)).json(),
  folder = await mkdtemp(join(tmpdir(), 'kv-lm-eval-'));
try {
  for (const [name, rest] of Object.entries(tasks)) await writeFile(join(folder, `${name}.yaml`), task(name, rest));
  const model = {
    model: models[0].id,
    base_url: `${url}/completions`,
    tokenizer: resolve(tokenizer),
    tokenizer_backend: 'huggingface',
    tokenized_requests: 'True',
    num_concurrent: clients,
    max_length: context,
    max_retries: '1',
  };
  const args = Object.entries({
    '--model': 'local-completions',
    '--model_args': Object.entries(model)
      .map(([key, value]) => `${key}=${value}`)
      .join(','),
    '--include_path': folder,
    '--tasks': Object.keys(tasks).join(','),
    '--num_fewshot': shots,
    ...(limit !== undefined && { '--limit': limit }),
  }).flat();
  const child = spawn(values['lm-eval'], [...args, ...positionals], {
    stdio: 'inherit',
    env: { OPENAI_API_KEY: 'none', ...process.env },
  });
  process.exitCode = await new Promise((done, fail) => child.once('error', fail).once('exit', done));
} finally {
  await rm(folder, { recursive: true });
}
