import { compose } from '@kv/core';
import type { Policy } from '@kv/core';
import { h2o } from '@kv/scorers-attention';
import type { H2oOptions } from '@kv/scorers-attention';
import { jointEviction } from '@kv/selectors-joint-eviction';

/** H2O's weights, and slots that leave by the exact error of all that left. */
export const h2oJoint = (options: H2oOptions = {}): Policy => compose(h2o(options), jointEviction());
