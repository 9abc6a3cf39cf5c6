import type { Option } from './option.ts';
import type { Policy } from './piece.ts';

/** Returns an option that is a policy or its text; the reader of the option refuses anything else. */
export const policyOption = <T = Policy | string>(
  says: string,
  otherwise?: string,
  want = 'a policy or its text',
): Option<T | undefined> => ({
  default: undefined,
  says,
  form: { sort: 'text', want, read: (x) => x },
  ...(otherwise !== undefined && { otherwise }),
});
