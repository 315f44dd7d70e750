import type { Theme } from 'vitepress'
import DefaultTheme from 'vitepress/theme'
import PlaygroundPage from './PlaygroundPage.vue'
import './style.css'

const theme: Theme = {
  extends: DefaultTheme,
  enhanceApp({ app }) {
    app.component('PlaygroundPage', PlaygroundPage)
  },
}
export default theme
