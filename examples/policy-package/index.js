import { compose, mandatory, method, withDefault } from '@kv/core';
import { snapkv } from '@kv/scorers-attention';
import { topK } from '@kv/selectors-top-k';

/** The first tokens, those that the last queries attend to, and the last ones. */
export const bookends = method(
  'bookends',
  {
    source: 'this example',
    says: 'SnapKV between the first and the last tokens.',
    options: {
      window: withDefault(snapkv.options.window, 16),
      sinks: withDefault(mandatory.options.sinks, 4),
    },
  },
  ({ window, sinks }) => compose(snapkv({ window, kernel: 17, pooling: 'max' }), mandatory({ sinks }), topK()),
);
