/**
 * An agent's life of 30 turns with a password in turn 2 and an order number in turn 4, each asked for at the end in words
 * that the model goes on writing, under the full cache and under policies: see `tools/details.mjs`. A screening.
 */
import { loadModel, Sequence } from '@kv/models';
import { parsePolicy } from '@kv/policies';
import { random } from '@kv/tasks';

const TURNS = [
  'Can you list the files in the reports folder? | I found april.csv, may.csv and june.csv; all three were changed this week.',
  'How large is may.csv? | It has 1,204 lines and takes 88 kB on disk.',
  'Please check whether the backup ran last night. | It ran at 02:15 and took 41 minutes, without any errors.',
  'What is on the calendar for Thursday? | A call with the design team at 10:00 and lunch with Priya at 12:30.',
  'Draft a short reply to Tom about the heating. | Hi Tom, the heating was repaired on Monday and works again. Best regards.',
  'How is the weather in Graz? | It is cloudy with some rain, 12 degrees, and the wind is weak.',
  'Convert 250 dollars to euros. | At the rate of this morning that is about 229 euros.',
  'Which server has the most load? | The second web server, with 71 percent over the last hour.',
  'Did anybody answer the survey? | Yes, 38 people did, and most of them want longer opening hours.',
  'Remind me what we decided about the logo. | You kept the blue one and dropped the version with the tree.',
  'Find a train to Linz tomorrow. | There is one at 07:14 and one at 09:14, both direct.',
  'Sort the names in the list. | Anna, Bernd, Clara, Dora, Emil and Franz.',
  'What did the last deployment change? | It made the search faster and removed two old pages.',
];
const ALPHABET = 'ABCDEFGHJKLMNPQRSTUVWXYZ23456789';

const args = process.argv.slice(2),
  flag = (name: string, otherwise: string): string => {
    const at = args.indexOf(`--${name}`);
    return at < 0 ? otherwise : args.splice(at, 2)[1];
  },
  conversations = Number(flag('conversations', '1')),
  budget = Number(flag('budget', '384')),
  block = Number(flag('block', '0')),
  [source = 'embedded', ...given] = args,
  policies = given.length > 0 ? given : ['taFast', 'taFast(reach=6,slots=4,anchors=regex)', 'streaming(sinks=4)'],
  model = await loadModel(source);

/** Returns a conversation and its two values. */
function life(i: number) {
  const r = random(`life ${i}`),
    password = i === 0 ? 'XK7M9P2Q' : Array.from({ length: 8 }, () => r.pick([...ALPHABET])).join(''),
    order = i === 0 ? '48213976' : Array.from({ length: 8 }, () => r.below(10)).join(''),
    turns = Array.from({ length: 30 }, (_, t) => {
      const [user, agent] = TURNS[(t + i) % TURNS.length].split(' | ');
      if (t === 1)
        return `User: For later: The password is: ${password}\nAgent: Noted, I will use it when you ask me to.\n`;
      if (t === 3)
        return `User: I bought a lamp. Your order number is ${order}, they wrote.\nAgent: Thank you, I have saved that.\n`;
      return `User: ${user}\nAgent: ${agent}\n`;
    });
  return { text: turns.join(''), password, order };
}

for (const name of ['full', ...policies]) {
  const right = { password: 0, order: 0 };
  const said: string[] = [];
  for (let i = 0; i < conversations; i++) {
    const { text, ...values } = life(i),
      read = new Sequence(model),
      { ids } = model.tokenizer.encode(text);
    await read.prefill(ids, name === 'full' ? {} : { policy: parsePolicy(name), budget, ...(block > 0 && { block }) });
    for (const [what, question] of [
      ['password', 'User: What was the password again?\nAgent: The password is:'],
      ['order', 'User: What was my order number again?\nAgent: Your order number is'],
    ] as const) {
      const sequence = read.fork();
      await sequence.prefill(
        model.tokenizer.encode(question).ids.filter((id) => id !== model.config.bosId),
        {},
      );
      const answer: number[] = [];
      for (let t = 0; t < 14; t++) {
        const id = await sequence.next();
        answer.push(id);
        await sequence.step(id);
      }
      const out = model.tokenizer.decode(answer);
      right[what] += Number(new RegExp(`(?<!\\w)${values[what]}(?!\\w)`).test(out));
      if (i === 0) said.push(`${JSON.stringify(out)} (${ids.length} tokens; ${sequence.stats.notes.join(' ')})`);
      sequence.destroy();
    }
    read.destroy();
  }
  console.log(
    `${name}: password ${right.password} of ${conversations}, order number ${right.order} of ${conversations}; first: ${said.join(' | ')}`,
  );
}
model.destroy();
