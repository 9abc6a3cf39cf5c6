import DefaultTheme from 'vitepress/theme-without-fonts';
import Landing from './Landing.vue';
import './style.css';
import './landing.css';

/**
 * A group of the menu is one control; the theme puts a second into it, which does the same. The key that is drawn on the
 * button of the search is no part of its name.
 */
function tidy() {
  for (const caret of document.querySelectorAll('.VPSidebarItem [role=button] > .caret[role]'))
    for (const name of ['role', 'tabindex', 'aria-label']) caret.removeAttribute(name);
  document.querySelector('.DocSearch-Button-Keys')?.setAttribute('aria-hidden', 'true');
  document.querySelector('.DocSearch-Button')?.removeAttribute('aria-label'); // its text is its name
}

export default {
  extends: DefaultTheme,
  enhanceApp({ app }) {
    app.component('Landing', Landing);
    if (typeof document === 'undefined') return; // while pages are rendered
    tidy();
    new MutationObserver(tidy).observe(document.body, { childList: true, subtree: true });
  },
};
