import type { Progress } from '@kv/hub/browser';
import type { ModelChoice } from './choice.ts';

/** Defined by bundle/embedded-model.ts: a folder relative to the page, and its files. */
declare const __MODEL__: { readonly folder: string; readonly files: readonly string[] };

/** A model to load. */
export interface ModelRequest {
  readonly model: ModelChoice;
  /** Folder of the page's own model, and the names of its files. */
  readonly own: { readonly url: string; readonly files: readonly string[] };
  /** Local files, if the choice names one. */
  readonly chosen: readonly File[];
}

/** Returns the address of the page's own model. */
export const ownModel = (): ModelRequest['own'] => ({
  url: new URL(__MODEL__.folder, document.baseURI).href,
  files: __MODEL__.files,
});

/** What is to happen if the browser does not keep a model of the hub: nothing, a look at the hub, or its download. */
export type HubRequest = 'nothing' | 'size' | 'download';

export type ToModels =
  | { readonly type: 'find'; readonly name: string; readonly wanted: HubRequest }
  /** Ends a download; what has come stays. */
  | { readonly type: 'halt' }
  | { readonly type: 'forget' };

export type FromModels =
  | { readonly type: 'kept'; readonly name: string }
  | { readonly type: 'absent'; readonly name: string; readonly bytes?: number; readonly license?: string }
  | { readonly type: 'refused'; readonly name: string; readonly message: string }
  | { readonly type: 'progress'; readonly progress: Progress }
  | { readonly type: 'forgotten' };
