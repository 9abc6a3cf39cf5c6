/** Defined by bundle/offline-files.ts: every file of the page, relative to it, and their hash. */
declare const __FILES__: readonly string[];
declare const __VERSION__: string;

/** The used part of the service worker API; its type library excludes that of pages. */
interface ExtendableEvent extends Event {
  waitUntil(done: Promise<unknown>): void;
}
interface FetchEvent extends Event {
  readonly request: Request;
  respondWith(response: Promise<Response>): void;
}
declare const self: {
  readonly location: Location;
  readonly clients: { claim(): Promise<void> };
  addEventListener(type: 'install' | 'activate', listen: (event: ExtendableEvent) => void): void;
  addEventListener(type: 'fetch', listen: (event: FetchEvent) => void): void;
};

const OURS = 'kv-playground-',
  CACHE = `${OURS}${__VERSION__}`;
const page = new URL('index.html', self.location.href).href;
const files = new Set(__FILES__.map((file) => new URL(file, self.location.href).href));

// All or nothing: a page whose model is missing is of no use without a network.
self.addEventListener('install', (event) =>
  event.waitUntil(
    (async () => {
      const cache = await caches.open(CACHE);
      await cache.addAll([...files].map((file) => new Request(file, { cache: 'no-cache' })));
    })(),
  ),
);

self.addEventListener('activate', (event) =>
  event.waitUntil(
    (async () => {
      for (const name of await caches.keys()) if (name.startsWith(OURS) && name !== CACHE) await caches.delete(name);
      await self.clients.claim();
    })(),
  ),
);

self.addEventListener('fetch', (event) => {
  const { method, mode, url } = event.request,
    { href, search, hash } = new URL(url),
    bare = href.slice(0, href.length - search.length - hash.length);
  const wanted = mode === 'navigate' && `${bare}index.html` === page ? page : bare;
  if (method === 'GET' && files.has(wanted)) event.respondWith(kept(wanted, event.request));
});

async function kept(url: string, request: Request): Promise<Response> {
  return (await (await caches.open(CACHE)).match(url)) ?? fetch(request);
}
