/** On narrow screens, the list of contents is above the text, and closed. */
const menu = document.querySelector('.menu')
const isWide = matchMedia('(min-width: 60rem)')

function setMenu() {
  menu.open = isWide.matches
  // Until this is set, the stylesheet hides the list on narrow screens.
  menu.dataset.ready = ''
}

isWide.addEventListener('change', setMenu)
setMenu()

// The search. `search.js` ranks the results.

const search = document.querySelector('search')
const input = document.querySelector('#search')
const searchStatus = document.querySelector('#found')
const results = document.querySelector('#results')
const RESULTS_MAX = 12

/** A promise of the search code and index. */
let loading

search.hidden = false
input.addEventListener('focus', () => loadSearcher().catch(() => {}))
input.addEventListener('input', show)
search.addEventListener('keydown', (event) => {
  if (event.key === 'Escape') {
    input.value = ''
    input.focus()
    show()
  }
  const step = { ArrowDown: 1, ArrowUp: -1 }[event.key]
  if (step === undefined) return
  event.preventDefault()
  const focusTargets = [input, ...results.querySelectorAll('a')]
  focusTargets
    .at((focusTargets.indexOf(document.activeElement) + step) % focusTargets.length)
    .focus()
})
results.addEventListener('click', clear)
document.addEventListener('keydown', (event) => {
  const isSlash = event.key === '/' && !event.target.closest('input, textarea, select')
  const isCtrlK = event.key.toLowerCase() === 'k' && (event.ctrlKey || event.metaKey)
  if (!isSlash && !isCtrlK) return
  event.preventDefault()
  input.focus()
  input.select()
})

function loadSearcher() {
  loading ??= Promise.all([
    import(search.dataset.library),
    import(search.dataset.script),
    fetch(search.dataset.index).then((response) => response.text()),
  ]).then(([library, script, index]) => ({
    find: script.createSearcher(library.default, index),
    excerptOf: script.excerptOf,
  }))
  loading.catch(() => {
    loading = undefined
  })
  return loading
}

async function show() {
  const text = input.value.trim()
  if (text === '') return clear()
  let searcher
  try {
    searcher = await loadSearcher()
  } catch {
    searchStatus.textContent =
      'The search could not be loaded. Check your connection and try again.'
    return
  }
  // If the text was changed while the search was loading, a later call shows the results.
  if (text !== input.value.trim()) return
  const matches = searcher.find(text)
  const count = matches.length === 1 ? '1 result' : `${matches.length} results`
  const shown = matches.slice(0, RESULTS_MAX)
  searchStatus.textContent =
    matches.length > shown.length ? `${count}, the first ${shown.length}:` : count
  results.replaceChildren(...shown.map((match) => renderResult(match, searcher.excerptOf(match))))
}

function clear() {
  searchStatus.textContent = ''
  results.replaceChildren()
}

function renderResult({ href, page, title }, excerpt) {
  const link = document.createElement('a')
  link.href = href
  link.textContent = title
  const pageName = document.createElement('span')
  pageName.textContent = page
  const text = document.createElement('p')
  text.className = 'excerpt'
  text.append(
    ...excerpt.map(({ piece, isFound }) => {
      if (!isFound) return piece
      const mark = document.createElement('mark')
      mark.textContent = piece
      return mark
    }),
  )
  const item = document.createElement('li')
  item.append(link, ' ', pageName, text)
  return item
}

// Tabs for alternative sections, e.g. samples in several languages. The browser stores the chosen language.

const STORAGE_KEY = 'docs-language'
const storage = openStorage()
let tabsCount = 0

for (const element of document.querySelectorAll('.tabs')) makeTabs(element)
chooseEverywhere(storage?.getItem(STORAGE_KEY))

/** Returns undefined if the browser blocks storage. The choice then applies to this page only. */
function openStorage() {
  try {
    return localStorage
  } catch {
    return undefined
  }
}

function makeTabs(element) {
  const list = document.createElement('div')
  list.role = 'tablist'
  list.ariaLabel = element.dataset.label
  const panels = [...element.children].map((details) => {
    const [summary, ...content] = details.childNodes
    const tab = document.createElement('button')
    const panel = document.createElement('div')
    tabsCount += 1
    Object.assign(tab, { type: 'button', role: 'tab', id: `tab-${tabsCount}` })
    tab.textContent = summary.textContent
    tab.setAttribute('aria-controls', `panel-${tabsCount}`)
    Object.assign(panel, { role: 'tabpanel', id: `panel-${tabsCount}` })
    panel.setAttribute('aria-labelledby', tab.id)
    panel.append(...content)
    list.append(tab)
    return panel
  })
  element.replaceChildren(list, ...panels)
  // Until this is set, the stylesheet hides each `<details>` that is closed.
  element.dataset.ready = ''
  selectTab(list.children[0])
  list.addEventListener('click', ({ target }) => choose(target.closest('[role=tab]')))
  list.addEventListener('keydown', (event) => {
    const tabs = [...list.children]
    const at = tabs.indexOf(document.activeElement)
    const next = { ArrowRight: at + 1, ArrowLeft: at - 1, Home: 0, End: -1 }[event.key]
    if (next === undefined) return
    event.preventDefault()
    const tab = tabs.at(next % tabs.length)
    tab.focus()
    choose(tab)
  })
}

function selectTab(tab) {
  for (const other of tab.parentElement.children) {
    const isSelected = other === tab
    other.ariaSelected = String(isSelected)
    other.tabIndex = isSelected ? 0 : -1
    document
      .querySelector(`#${other.getAttribute('aria-controls')}`)
      ?.toggleAttribute('hidden', !isSelected)
  }
}

function choose(tab) {
  if (tab === null) return
  const top = tab.getBoundingClientRect().top
  selectTab(tab)
  if (tab.closest('.tabs').dataset.tabs !== 'language') return
  storage?.setItem(STORAGE_KEY, tab.textContent)
  chooseEverywhere(tab.textContent)
  // The samples above may now be taller or shorter. The page scrolls by the difference, so that the chosen tab does not
  // move.
  scrollBy({ top: tab.getBoundingClientRect().top - top, behavior: 'instant' })
}

function chooseEverywhere(label) {
  for (const tab of document.querySelectorAll('.tabs[data-tabs=language] [role=tab]')) {
    if (tab.textContent === label) selectTab(tab)
  }
}

// In the list of contents, the link to the section that the reader sees is marked.

const links = new Map(
  [...document.querySelectorAll('.menu a[href^="#"]')].map((link) => [link.hash.slice(1), link]),
)
let current
const observer = new IntersectionObserver(
  (entries) => {
    const entry = entries.find(({ isIntersecting }) => isIntersecting)
    if (entry === undefined) return
    current?.removeAttribute('aria-current')
    current = links.get(entry.target.id)
    current?.setAttribute('aria-current', 'location')
    if (isWide.matches) current?.scrollIntoView({ block: 'nearest' })
  },
  { rootMargin: '0px 0px -75%' },
)
for (const id of links.keys()) observer.observe(document.getElementById(id))

// Buttons that copy samples. If the browser does not allow this, the sample is selected instead.

const copyStatus = document.querySelector('#copy-status')

for (const pre of document.querySelectorAll('pre:not(:has([data-language="http"]))')) addCopy(pre)

function addCopy(pre) {
  const button = document.createElement('button')
  button.type = 'button'
  button.className = 'copy'
  button.textContent = 'Copy'
  button.addEventListener('click', () => copy(pre, button))
  const sample = document.createElement('div')
  sample.className = 'sample'
  pre.replaceWith(sample)
  sample.append(pre, button)
}

async function copy(pre, button) {
  try {
    await navigator.clipboard.writeText(pre.textContent.trimEnd())
    button.textContent = 'Copied'
    copyStatus.textContent = 'Copied.'
  } catch {
    getSelection().selectAllChildren(pre)
    button.textContent = 'Selected'
    copyStatus.textContent = 'Selected. You can copy it now.'
  }
  setTimeout(() => {
    button.textContent = 'Copy'
    copyStatus.textContent = ''
  }, 2000)
}
