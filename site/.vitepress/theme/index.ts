import type { Theme } from 'vitepress'
import DefaultTheme from 'vitepress/theme'
import { h } from 'vue'
import NotFoundPage from './NotFoundPage.vue'
import PlaygroundPage from './PlaygroundPage.vue'
import './style.css'

const theme: Theme = {
  extends: DefaultTheme,
  Layout: () => h(DefaultTheme.Layout, null, { 'not-found': () => h(NotFoundPage) }),
  enhanceApp({ app }) {
    app.component('PlaygroundPage', PlaygroundPage)
  },
}
export default theme
