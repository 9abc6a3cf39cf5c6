import DefaultTheme from 'vitepress/theme-without-fonts';
import { onMounted, onUnmounted } from 'vue';
import './style.css';

/**
 * A group of the menu is one control; the theme puts a second into it, which does the same. The key that is drawn on the
 * button of the search is no part of its name.
 */
function setup() {
  const tidy = () => {
    for (const caret of document.querySelectorAll('.VPSidebarItem [role=button] > .caret[role]'))
      for (const name of ['role', 'tabindex', 'aria-label']) caret.removeAttribute(name);
    document.querySelector('.DocSearch-Button-Keys')?.setAttribute('aria-hidden', 'true');
    document.querySelector('.DocSearch-Button')?.removeAttribute('aria-label'); // its text is its name
  };
  const observer = typeof MutationObserver === 'function' ? new MutationObserver(tidy) : undefined;
  onMounted(() => {
    tidy();
    observer?.observe(document.body, { childList: true, subtree: true });
  });
  onUnmounted(() => observer?.disconnect());
}

export default { extends: DefaultTheme, setup };
