/** Prompts of `kv choose`: texts with a code in each, and the question after it, as JSON lines. */
export const needles = (count: number): string => Array.from({ length: count }, (_, i) => needle(i)).join('\n');

const WORDS = 'the river was wide and a boy told his old friend that rain would come before they saw any light'.split(
  ' ',
);
const needle = (i: number): string => {
  const code = `XK${7 + i}M${9 + i}P2Q`,
    words = Array.from({ length: 60 }, (_, w) => WORDS[(w * (i + 3)) % WORDS.length]);
  return JSON.stringify({
    context: `${words.slice(0, 10 + 5 * i).join(' ')}. The secret code is: ${code}. ${words.join(' ')}. `,
    question: 'The secret code is:',
    answer: code,
    maxNewTokens: 10,
  });
};
