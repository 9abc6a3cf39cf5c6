/** Defined by bundle/offline-files.ts: whether there is a service worker. */
declare const __BUILT__: boolean;

/** Caches the page for use offline. Resolves to a message about it. */
export async function keepOffline(): Promise<string> {
  if (!__BUILT__ || !('serviceWorker' in navigator)) return '';
  try {
    await navigator.serviceWorker.register('service-worker.js');
    await navigator.serviceWorker.ready;
    return 'Works without a network from now on.';
  } catch {
    return ''; // a private window, or no secure context: the page works all the same
  }
}
