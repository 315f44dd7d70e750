import type { Theme } from 'vitepress'
import DefaultTheme from 'vitepress/theme'
import { h } from 'vue'
import { data as firstPrice } from './first-price.data'
import NotFoundPage from './NotFoundPage.vue'
import PlaygroundPage from './PlaygroundPage.vue'
import './style.css'

const theme: Theme = {
  extends: DefaultTheme,
  Layout: () =>
    h(DefaultTheme.Layout, null, {
      'not-found': () => h(NotFoundPage),
      'home-hero-image': () => h('div', { class: 'vp-doc first-price', innerHTML: firstPrice }),
    }),
  enhanceApp({ app }) {
    app.component('PlaygroundPage', PlaygroundPage)
  },
}
export default theme
