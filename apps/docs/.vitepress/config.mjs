import { readFileSync } from 'node:fs';
import { fileURLToPath } from 'node:url';
import { defineConfig } from 'vitepress';

const generated = fileURLToPath(new URL('../.generated/', import.meta.url));
const { base, sidebar } = JSON.parse(readFileSync(`${generated}site.json`, 'utf8'));

export default defineConfig({
  title: 'kv',
  description:
    'Long conversations with a language model in fixed memory: choose which tokens its cache keeps, and see what each choice costs.',
  base,
  lang: 'en',
  head: [['link', { rel: 'icon', type: 'image/svg+xml', href: `${base}icon.svg` }]],
  srcDir: '.generated',
  outDir: 'dist',
  cleanUrls: false,
  lastUpdated: false,
  // what looks like an HTML tag in prose and docstrings is text;
  // equations use braces for sets, so attributes get another delimiter
  markdown: {
    html: false,
    theme: { light: 'github-light-high-contrast', dark: 'github-dark-default' },
    attrs: { leftDelimiter: '{:', rightDelimiter: '}' },
    config: (markdown) => void markdown.use(noTemplates).use(scrolled),
  },
  // a build of its own, copied next to the pages
  ignoreDeadLinks: [/\/playground\//],
  vite: { build: { chunkSizeWarningLimit: 5000 } },
  themeConfig: {
    nav: [
      { text: 'Start', link: '/start' },
      { text: 'Methods', link: '/methods/' },
      { text: 'Pieces', link: '/pieces/' },
      { text: 'Guides', link: '/guides/' },
      { text: 'Evidence', link: '/docs/evidence' },
      { text: 'API', link: '/api/' },
      { text: 'Playground', link: '/playground/index.html', target: '_self' },
    ],
    sidebar,
    outline: [2, 3],
    notFound: { linkLabel: 'Take me home' },
    search: {
      provider: 'local',
      options: { translations: { modal: { noResultsText: 'Nothing found for' } } },
    },
  },
});

/** Escapes double braces in prose, which Vue would read as an expression. */
function noTemplates(markdown) {
  const { text } = markdown.renderer.rules;
  const escaped = (html) => html.replaceAll('{{', '&#123;&#123;').replaceAll('}}', '&#125;&#125;');
  markdown.renderer.rules.text = (tokens, index, ...rest) =>
    escaped(text ? text(tokens, index, ...rest) : markdown.utils.escapeHtml(tokens[index].content));
}

/** Lets blocks that are wider than a phone scroll by keyboard. */
function scrolled(markdown) {
  const { rules } = markdown.renderer;
  for (const name of ['code_block', 'table_open']) {
    const render = rules[name] ?? ((tokens, index, options, _, self) => self.renderToken(tokens, index, options));
    rules[name] = (tokens, index, ...rest) => {
      if (name === 'table_open') tokens[index].attrSet('tabindex', '0');
      return render(tokens, index, ...rest).replace(/^<pre/, '<pre tabindex="0"');
    };
  }
}
