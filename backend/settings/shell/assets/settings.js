/**
 * Improves the pages, all of which also work without this script. The script writes no HTML, stores no secret, and
 * sends requests to the page's own origin only.
 */

const status = document.getElementById('flash')

function announce(text) {
  status.textContent = ''
  // Without emptying the region first, a repeated message would not be announced.
  requestAnimationFrame(() => {
    status.textContent = text
  })
}

// Screen readers announce only changes, so the initial text is set again.
const initialText = status.textContent
if (initialText !== '') {
  setTimeout(() => {
    if (status.textContent === initialText) status.replaceChildren(initialText)
  }, 300)
}

document.querySelector('[data-focus]')?.focus()

for (const input of document.querySelectorAll('[data-count]')) {
  const counter = document.querySelector(`[data-counter="${input.id}"]`)
  const lengthMax = Number(input.dataset.count)
  const show = () => {
    const left = lengthMax - [...input.value.trim()].length
    const count = Math.abs(left)
    const characters = count === 1 ? '1 character' : `${count} characters`
    counter.textContent = `${characters} ${left < 0 ? 'too many' : 'left'}.`
  }
  input.addEventListener('input', show)
  show()
}

for (const preset of document.querySelectorAll('[data-preset]')) {
  preset.addEventListener('click', (event) => {
    event.preventDefault()
    const scopes = preset.dataset.preset.split(' ')
    for (const box of document.querySelectorAll('input[name="scopes"]')) {
      box.checked = scopes.includes(box.value)
    }
  })
}

/**
 * Loads the preview after each change into a new frame, which then replaces the old frame. If one frame loaded every
 * preview, each change would add an entry to the browser's history.
 */
const previewButton = document.querySelector('[data-preview]')
if (previewButton) {
  const { form } = previewButton
  let timer
  let count = 0
  const showPreview = () => {
    const shown = document.getElementsByName(previewButton.formTarget)[0]
    const next = document.createElement('iframe')
    for (const { name, value } of shown.attributes)
      if (name !== 'src') next.setAttribute(name, value)
    // Each frame needs a name of its own, because the old frame exists until the new one is loaded.
    count++
    next.name = `preview-${count}`
    previewButton.formTarget = next.name
    next.classList.add('loading')
    shown.after(next)
    form.requestSubmit(previewButton)
    next.addEventListener('load', () => {
      // A later change may have added another frame.
      if (next.name !== previewButton.formTarget) return
      for (const frame of [...next.parentElement.children]) if (frame !== next) frame.remove()
      next.classList.remove('loading')
    })
  }
  form.addEventListener('input', () => {
    clearTimeout(timer)
    timer = setTimeout(showPreview, 400)
  })
  if (form.hasAttribute('data-unsaved')) showPreview()
}

// Selects the file that was sent before, so that people need not select it again after they correct an option.
for (const sent of document.querySelectorAll('[data-chosen]')) {
  const files = new DataTransfer()
  files.items.add(new File([sent.value], sent.dataset.name, { type: 'text/csv' }))
  document.getElementById(sent.dataset.chosen).files = files.files
  document.querySelector('[data-choose-again]').hidden = true
}

/** Ignores a second click while the first request is in flight. */
document.addEventListener('submit', (event) => {
  const form = event.target
  if (!form.matches('form[data-once]') || event.submitter?.formTarget) return
  if (form.dataset.sent) {
    event.preventDefault()
    event.stopImmediatePropagation()
    return
  }
  form.dataset.sent = 'yes'
  form.querySelector('button:not([type="button"])')?.setAttribute('aria-disabled', 'true')
})
// When the browser restores a page from its cache, the forms are still marked as sent.
addEventListener('pageshow', (event) => {
  if (!event.persisted) return
  for (const form of document.querySelectorAll('form[data-once]')) {
    delete form.dataset.sent
    form.querySelector('[aria-disabled]')?.removeAttribute('aria-disabled')
  }
})

// A page with `data-reload` is incomplete. It is loaded again each second until the complete page, which lacks the
// attribute, arrives.
if (document.querySelector('[data-reload]')) setTimeout(() => location.reload(), 1000)

// An action that takes several requests, such as an import, continues without another click.
document.querySelector('form[data-continue] button')?.click()

for (const button of document.querySelectorAll('[data-copy]')) {
  const field = document.getElementById(button.dataset.copy)
  const [label] = button.childNodes
  button.hidden = false
  field.addEventListener('focus', () => field.select())
  button.addEventListener('click', async () => {
    try {
      await navigator.clipboard.writeText(field.value)
      label.textContent = 'Copied'
      announce('Copied.')
      setTimeout(() => {
        label.textContent = 'Copy'
      }, 3000)
    } catch {
      field.focus()
      field.select()
      announce('Press Ctrl+C or ⌘C to copy.')
    }
  })
}

// A page that shows a secret once has a box "I have stored the secret". Until a person ticks the box, the browser asks
// for confirmation before it leaves the page.
const secretCard = document.querySelector('[data-reveal]')
if (secretCard) {
  const checkbox = secretCard.querySelector('#stored')
  const done = secretCard.querySelector('[data-done]')
  const isStored = () => checkbox.checked
  done.disabled = !isStored()
  checkbox.addEventListener('change', () => {
    done.disabled = !isStored()
  })
  addEventListener('beforeunload', (event) => {
    if (!isStored()) event.preventDefault()
  })
}

// The link of an invitation or a password reset contains its code in the fragment. The code is entered into its field,
// which is hidden, and removed from the address bar.
const codeInput = document.querySelector('[data-from-fragment]')
if (codeInput && location.hash.length > 1) {
  codeInput.value = location.hash.slice(1)
  const field = codeInput.closest('[data-code]')
  if (field) field.hidden = true
  history.replaceState(null, '', location.pathname)
  document.getElementById('password').focus()
}
